"""What the scheduler gives no place: its queue is not open to it, or its priority is of the system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kai.advice import templates
from kai.advice.facts import Facts
from kai.advice.templates import Workload
from kai.model import access, names
from kai.model.access import User
from kai.model.objects import Json, PodGroup
from kai.model.queue_labels import queue_named


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why it will be given no place; ``queue`` is the one that keeps it out, if that is why."""

    text: str
    queue: str = ""


def refusals(kind: str, body: Json, namespace: str, facts: Facts) -> tuple[str, list[Refusal]]:
    """How to call an object, and why nothing of it would run; of what is not known nothing is said.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    if kind == "PodGroup":
        group = msgspec.convert(body, PodGroup)
        namespace = group.metadata.namespace or namespace
        where = f"podgroup {namespace}/{group.metadata.name}"
        return where, [
            *_queue(group.spec.queue, namespace, None, facts),
            *_priority(group.spec.priority_class_name, namespace, facts),
        ]
    if kind in templates.KINDS:
        workload = templates.workload_of(kind, body, namespace)
        if workload.spec.scheduler_name == facts.scheduler_name:
            return workload.where, list(_of_workload(workload, facts))
    return kind, []


def _of_workload(workload: Workload, facts: Facts) -> Iterator[Refusal]:
    owner, pod, namespace = workload.grouped_by.labels or {}, workload.pod, workload.metadata.namespace
    queue = queue_named(
        owner,
        pod.labels,
        queue_label_key=facts.queue_label_key,
        node_pool_label_key=facts.node_pool_label_key,
    )
    account = pod.spec.service_account_name or names.DEFAULT_SERVICE_ACCOUNT
    yield from _queue(queue, namespace, account, facts)
    key = names.PRIORITY_CLASS_LABEL
    wanted = owner.get(key, pod.labels.get(key, pod.spec.priority_class_name))
    yield from _priority(wanted, namespace, facts)


def _queue(queue: str, namespace: str, account: str | None, facts: Facts) -> Iterator[Refusal]:
    if facts.queues is None or facts.namespaces is None or namespace not in facts.namespaces:
        return
    user = User(namespace=namespace, labels=facts.namespaces[namespace], account=account)
    if shut := access.barrier(queue, facts.queues, user):
        yield Refusal(access.refusal(queue, shut, facts.queues[shut].spec.access, user), shut)


def _priority(name: str, namespace: str, facts: Facts) -> Iterator[Refusal]:
    if access.usurped(name, namespace, facts.system_namespaces):
        yield Refusal(access.priority_refusal(name, namespace, facts.system_namespaces))
