"""Rules of Queue objects: queues form a tree, and promise no more than they were promised."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from kai.model import duration, names, resource_lists
from kai.model.objects import Queue, QueueResource, QueueResources, QueueStatus, ResourceList
from kai.validation.verdict import Verdict

_UNLIMITED = -1
_RESOURCES = ("gpu", "cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """What to look at beyond the tree itself."""

    #: Compare quotas of parents and children.
    quotas: bool = False
    #: Refuse to delete a queue that has children or work, instead of warning.
    refuse_deletion: bool = False
    node_pool_label_key: str = names.NODE_POOL_LABEL


def check(queue: Queue, queues: Mapping[str, Queue], rules: QueueRules | None = None) -> Verdict:
    """Whether the queue may be created or replaced, given all queues of the cluster by name.

    ``queues`` may hold the queue itself in its old form; the new one counts. -1 is infinity wherever
    amounts are compared.
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

    parent = others.get(queue.spec.parent_queue)
    errors = [*_circle(queue, others), *_bad_durations(queue)]
    warnings = [
        *_missing_parent(queue, parent),
        *_other_node_pool(queue, parent, rules.node_pool_label_key),
        *_unusable_amounts(resources),
    ]
    if rules.quotas and not errors:
        errors += _unknown_parent_quota(queue, parent)
        warnings += _quota_above_parent(queue, parent)
        warnings += _quotas_below(queue, others)
    return Verdict.of(
        (f"queue {name}: {error}" for error in errors), (f"queue {name}: {warning}" for warning in warnings)
    )


def children(name: str, queues: Iterable[Queue]) -> list[str]:
    """Names of the queues below a queue, in order."""
    return sorted(q.metadata.name for q in queues if q.spec.parent_queue == name and q.metadata.name != name)


def check_deletion(queue: Queue, children: Sequence[str], *, refuse: bool = False) -> Verdict:
    """What goes wrong where a queue is deleted of which others are children, or in which there is work.

    Only a warning unless ``refuse`` is set, since a tree may be deleted from above.
    """
    found = [*_orphans(children), *_abandoned_work(queue.status)]
    told = tuple(f"queue {queue.metadata.name}: {each}" for each in found)
    return Verdict(errors=told) if refuse else Verdict(warnings=told)


def _orphans(children: Sequence[str]) -> Iterator[str]:
    if children:
        listed = ", ".join(children[:5]) + (f" and {len(children) - 5} more" if len(children) > 5 else "")
        yield (
            f"it is the parent of {listed}, where nothing is scheduled without it; "
            "delete those too or give them another spec.parentQueue"
        )


def _abandoned_work(status: QueueStatus | None) -> Iterator[str]:
    """Work by what the status says, which counts the queues below, too."""
    if status is None:
        return
    held, asked = _amounts(status.allocated), _amounts(status.requested)
    if held:
        yield (
            f"work in it holds {held}; its pods keep running, but count in no queue and get no successors "
            "until a queue of this name exists again"
        )
    elif asked:
        yield f"work in it waits for {asked}; it will go on waiting until a queue of this name exists again"


def _amounts(listed: ResourceList | None) -> str:
    return ", ".join(
        f"{amount} {resource}"
        for resource, amount in sorted((listed or {}).items())
        if resource_lists.parsed(amount) > 0
    )


def _circle(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[str]:
    """A queue that is its own ancestor has no share at all, nor has anything below it."""
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
            duration.parse(text, days=False)
        except duration.InvalidDuration as error:
            yield f"spec.{field}: {error}"


def _missing_parent(queue: Queue, parent: Queue | None) -> Iterator[str]:
    if queue.spec.parent_queue and parent is None:
        yield (
            f'spec.parentQueue "{queue.spec.parent_queue}" does not exist; '
            "nothing is scheduled in this queue until that one is created"
        )


def _other_node_pool(queue: Queue, parent: Queue | None, key: str) -> Iterator[str]:
    if parent is None:
        return
    own, above = queue.labels.get(key, ""), parent.labels.get(key, "")
    if own != above:
        yield (
            f'label {key} is "{own}" but "{above}" on its parent {parent.metadata.name}, '
            "so no scheduler sees both; give them the same label"
        )


def _unusable_amounts(resources: QueueResources) -> Iterator[str]:
    """Amounts that are legal and yet seldom meant."""
    for kind in _RESOURCES:
        amount: QueueResource = getattr(resources, kind)
        where = f"spec.resources.{kind}"
        for field, value in (("quota", amount.quota), ("limit", amount.limit)):
            if value < 0 and value != _UNLIMITED:
                yield f"{where}.{field} is {value:g}; write -1 for no bound"
        asked_for = kind != "gpu" or amount.quota or amount.over_quota_weight
        if amount.limit == 0 and asked_for:
            yield f"{where}.limit is 0, so its workloads may use no {kind} at all; write -1 for no bound"
        elif 0 <= amount.limit < amount.quota:
            yield f"{where}.limit {amount.limit:g} is below the quota {amount.quota:g}, never to be used up"
    cpu = resources.cpu
    for field, value in (("quota", cpu.quota), ("limit", cpu.limit)):
        if 0 < value < 100:
            yield f"spec.resources.cpu.{field} is {value:g} millicores; {value:g} cores are {value * 1000:g}"


def _bound(amount: float) -> float:
    return inf if amount == _UNLIMITED else amount


def _text(amount: float) -> str:
    return "unlimited" if amount == inf else f"{amount:g}"


def _quotas(queue: Queue) -> dict[str, float]:
    """Quotas by resource, with no bound as infinity; all 0 if the queue has no resources."""
    resources = queue.spec.resources or QueueResources()
    return {kind: _bound(getattr(resources, kind).quota) for kind in _RESOURCES}


def _unknown_parent_quota(queue: Queue, parent: Queue | None) -> Iterator[str]:
    if not queue.spec.parent_queue:
        return
    if parent is None:
        yield f'the quota of spec.parentQueue "{queue.spec.parent_queue}" is unknown; create that queue first'
    elif parent.spec.resources is None:
        yield f"its parent {parent.metadata.name} has no spec.resources to compare with; set them first"


def _quota_above_parent(queue: Queue, parent: Queue | None) -> Iterator[str]:
    if parent is None or parent.spec.resources is None:
        return
    above = _quotas(parent)
    for kind, own in _quotas(queue).items():
        if own > above[kind]:
            name = parent.metadata.name
            yield f"{kind} quota {_text(own)} is more than the {above[kind]:g} of its parent {name}"


def _quotas_below(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[str]:
    """Compares the sums of a queue's children, and of its siblings and itself, with what is above them."""
    for above in (queues.get(queue.spec.parent_queue), queue):
        if above is None or above.spec.resources is None:
            continue
        children = [q for q in queues.values() if q.spec.parent_queue == above.metadata.name]
        for kind, own in _quotas(above).items():
            total = sum(_quotas(child)[kind] for child in children)
            if total > own:
                name = above.metadata.name
                yield f"{kind} quotas of the children of {name} sum up to {_text(total)}, over its {own:g}"
