"""Warnings about what operators make pods of: PyTorchJobs, JobSets, Ray clusters and their like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from kai.advice import gangs, membership, metadata, sizes, workloads
from kai.advice.facts import Facts
from kai.advice.finding import Finding
from kai.advice.gangs import Alike
from kai.advice.templates import Workload, called
from kai.grouping.offline.foreseen import Foreseen, foreseen
from kai.grouping.options import GroupingOptions
from kai.model import names
from kai.model.objects import ApiObject, Json, ObjectMeta, PodGroup
from kai.workloads.making import OF_OPERATORS


def is_known(kind: str, body: Json) -> bool:
    """Whether an operator makes pods of it, and how is known."""
    return (str(body.get("apiVersion")).rpartition("/")[0], kind) in OF_OPERATORS


async def findings(kind: str, body: Json, namespace: str, facts: Facts) -> tuple[str, Iterator[Finding]]:
    """How to call the object, and what is wrong with it and with the pods that would come of it.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    meta = msgspec.convert(body, ApiObject).metadata
    meta.namespace = meta.namespace or namespace
    pods = await foreseen(body, meta.namespace, _options(facts))
    return called(kind, meta), _told(kind, meta, pods, facts)


def _options(facts: Facts) -> GroupingOptions:
    return GroupingOptions(
        scheduler_name=facts.scheduler_name,
        queue_label_key=facts.queue_label_key,
        node_pool_label_key=facts.node_pool_label_key,
        # An installation may have it otherwise, and then one pod is enough.
        knative_gang_schedule=False,
    )


def _told(kind: str, meta: ObjectMeta, pods: Sequence[Foreseen], facts: Facts) -> Iterator[Finding]:
    if not pods:
        yield from _without_pods(meta, facts)
    for each in pods:
        grouped_by = meta if each.group is None else _grouped_by(each.group, facts)
        yield from workloads.findings(Workload(kind, meta, each.pod, grouped_by), facts)
    yield from _gangs(pods, facts)


def _grouped_by(group: PodGroup, facts: Facts) -> ObjectMeta:
    """The labels of a group, and the queue that its rule found for it."""
    queue = group.spec.queue
    said = {} if queue == names.DEFAULT_QUEUE else {facts.queue_label_key: queue}
    return ObjectMeta(labels={**group.labels, **said}, annotations=group.annotations)


def _without_pods(meta: ObjectMeta, facts: Facts) -> Iterator[Finding]:
    """It is suspended, or takes what its pods are from other objects."""
    labels = meta.labels or {}
    yield from metadata.findings(labels, meta.annotations or {}, queue_label_key=facts.queue_label_key)
    if queue := labels.get(facts.queue_label_key):
        yield from membership.queue_findings(queue, facts)


def _gangs(pods: Sequence[Foreseen], facts: Facts) -> Iterator[Finding]:
    capacity = facts.capacity
    if capacity is None or not capacity.nodes:
        return
    members: defaultdict[str, list[Alike]] = defaultdict(list)
    for each in pods:
        if each.group is not None:
            alike = Alike(sizes.counted(each.pod, facts), each.count, each.sub_group)
            members[each.group.key].append(alike)
    for each in pods:
        if each.group is None:
            continue
        together = gangs.least(each.group.spec, members[each.group.key])
        if (size := int(together.pop("pods"))) > 1:
            yield from sizes.beyond_cluster(size, together, capacity)
