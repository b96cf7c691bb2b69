"""What stays of objects whose newest version cannot be taken in.

What they hold must not be given to others while they hold it, and what they limit must not be unlimited:

* a pod on a node holds what it held, or, where no version of it was ever taken in, what its containers ask
  for, as far as a bound at the most, and all of the shared devices that its labels name; any other pod is
  left out;
* a node keeps what it offered for those who are on it, and takes nobody else;
* a pod group is never scheduled; what its pods hold is charged to its queue;
* a queue, and everything else, stays as it was when it was last taken in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kai.model import limits, names
from kai.model.objects import (
    Container,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSpec,
    ResourceList,
    ResourceRequirements,
)
from kai.model.requests import pod_requests
from kai.model.rules.gpu_groups import is_gpu_group_label
from kai.snapshot.resources import ResourceTable


def node_stand_in(known: Node) -> Node:
    """What stays of a node: what it offered, to nobody else."""
    return msgspec.structs.replace(known, spec=msgspec.structs.replace(known.spec, unschedulable=True))


def group_stand_in(group: PodGroup) -> PodGroup:
    """As much of a group as says what its pods are charged to, and which scheduler has it."""
    meta, spec = group.metadata, group.spec
    return PodGroup(
        metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, labels=meta.labels),
        spec=PodGroupSpec(
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            preemptibility=spec.preemptibility,
        ),
    )


def pod_stand_in(pod: Pod, resources: ResourceTable) -> Pod:
    """As much of a pod as says what it holds, readable in every part: all its requests in one container."""
    meta, spec = pod.metadata, pod.spec
    annotations = pod.annotations
    kept = {
        key: text
        for key, text in annotations.items()
        if key == names.POD_GROUP_ANNOTATION or key.startswith(names.RESERVATION_CLAIM_PREFIX)
    }
    devices = sum(map(is_gpu_group_label, pod.labels))
    if devices:
        devices = limits.SHARED_DEVICES.clamp(devices)
        kept |= {names.GPU_FRACTION: "1", names.GPU_FRACTION_NUM_DEVICES: str(devices)}
    labels = {key: text for key, text in pod.labels.items() if key != names.TASK_PRIORITY_LABEL}
    return Pod(
        metadata=ObjectMeta(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, labels=labels, annotations=kept
        ),
        spec=PodSpec(
            node_name=spec.node_name,
            scheduler_name=spec.scheduler_name,
            containers=[Container(resources=ResourceRequirements(requests=_counted(pod, resources)))],
        ),
        status=msgspec.structs.replace(
            pod.status,
            container_statuses=None,
            init_container_statuses=None,
            resources=None,
            allocated_resources=None,
        ),
    )


def _counted(pod: Pod, resources: ResourceTable) -> ResourceList:
    """What the pod asks for of what nodes offer; an amount beyond its bounds counts as the bound."""

    def read(asked: Mapping[str, str]) -> dict[str, int]:
        return {
            name: resources.limit(name).nearest(text, scale=resources.unit(name))
            for name, text in asked.items()
            if resources.knows(name)
        }

    counted: ResourceList = {}
    for name, amount in pod_requests(pod, read).items():
        amount = resources.limit(name).clamp(amount)
        counted[name] = f"{amount}m" if resources.unit(name) > 1 else str(amount)
    return counted
