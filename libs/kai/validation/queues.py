"""Rules of Queue objects: queues form a tree, and what they are promised is known."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kai.model import access, duration, limits, names
from kai.model.faults import OutOfBounds
from kai.model.objects import LabelRequirement, LabelSelector, Queue
from kai.validation.verdict import Verdict

_NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_ACCOUNT: Final = re.compile(f"{_NAME}/{_NAME}")
_GROUP: Final = re.compile(f"{names.ALL_SERVICE_ACCOUNTS}(:{_NAME})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """What to look at beyond the tree itself."""

    #: Refuse queues whose quota cannot be compared with their parent's.
    quotas: bool = False
    #: Refuse to delete a queue that has children or work, instead of warning.
    refuse_deletion: bool = False


def check(queue: Queue, queues: Mapping[str, Queue], rules: QueueRules | None = None) -> Verdict:
    """Whether the queue may be created or replaced, given all queues of the cluster by name.

    ``queues`` may hold the queue itself in its old form; the new one counts.
    """
    rules = rules or QueueRules()
    name = queue.metadata.name
    others = {**queues, name: queue}
    resources = queue.spec.resources
    if resources is None:
        missing = (
            f"queue {name}: spec.resources is missing; "
            "set quota, limit and overQuotaWeight of gpu, cpu and memory (-1 for no bound)"
        )
        return Verdict((missing,), (missing,))

    errors = [*_ancestry(queue, others), *_bad_durations(queue), *_bad_access(queue)]
    if rules.quotas and not errors:
        errors += _unknown_parent_quota(queue, others.get(queue.spec.parent_queue))
    return Verdict.of(f"queue {name}: {error}" for error in errors)


def _ancestry(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[str]:
    """A queue that is its own ancestor, or has too many, has no share at all, nor has anything below it."""
    name = queue.metadata.name
    path = [name]
    current: Queue | None = queue
    while current is not None and (parent := current.spec.parent_queue):
        if parent == name:
            if len(path) == 1:
                yield "spec.parentQueue is the queue itself; name another or leave it empty for a top queue"
            else:
                circle = " -> ".join([*path, name])
                yield f"spec.parentQueue makes a circle ({circle}); name a queue that is not below this one"
            return
        if parent in path:
            return  # a circle further up, which is not this queue's doing
        path.append(parent)
        if len(path) > limits.QUEUE_DEPTH.most:
            yield str(limits.too_deep(queue.spec.parent_queue))
            return
        current = queues.get(parent)


def _bad_durations(queue: Queue) -> Iterator[str]:
    spec = queue.spec
    fields = (
        ("preemptMinRuntime", spec.preempt_min_runtime),
        ("reclaimMinRuntime", spec.reclaim_min_runtime),
    )
    for field, text in fields:
        if not text:
            continue
        try:
            duration.parse(text)
        except duration.InvalidDuration as error:
            yield f"spec.{field}: {error}"


def _bad_access(queue: Queue) -> Iterator[str]:
    """Where the schema let through what nobody is admitted by: it would be taken for a rule that holds."""
    rule = queue.spec.access
    if rule is None:
        return
    try:
        access.check_size(rule)
    except OutOfBounds as error:
        yield str(error)
        return
    where = "spec.access"
    for account in rule.service_accounts or ():
        if not _ACCOUNT.fullmatch(account):
            yield f'{where}.serviceAccounts: "{account}" is no service account; write namespace/name'
    for group in rule.groups or ():
        if not _GROUP.fullmatch(group):
            yield (
                f'{where}.groups: "{group}" is no group of service accounts, and of others pods say nothing; '
                f"write {names.ALL_SERVICE_ACCOUNTS}:<namespace>, or list namespaces where its members may "
                "create pods"
            )
    selector = rule.namespace_selector or LabelSelector()
    for each in selector.match_expressions or ():
        if problem := _bad_requirement(each):
            yield f"{where}.namespaceSelector.matchExpressions of {each.key!r}: {problem}"


def _bad_requirement(each: LabelRequirement) -> str:
    wants_values = each.operator in ("In", "NotIn")
    if not wants_values and each.operator not in ("Exists", "DoesNotExist"):
        return f'operator "{each.operator}" is not known; write In, NotIn, Exists or DoesNotExist'
    if wants_values and not each.values:
        return f"operator {each.operator} needs values"
    if not wants_values and each.values:
        return f"operator {each.operator} takes no values; leave them out"
    return ""


def _unknown_parent_quota(queue: Queue, parent: Queue | None) -> Iterator[str]:
    if not queue.spec.parent_queue:
        return
    if parent is None:
        yield f'the quota of spec.parentQueue "{queue.spec.parent_queue}" is unknown; create that queue first'
    elif parent.spec.resources is None:
        yield f"its parent {parent.metadata.name} has no spec.resources to compare with; set them first"
