"""Builders of small API objects; names are sentences in tests: ``a_node("n1", gpus=8)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kai.model import names
from kai.model.objects import (
    Condition,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSpec,
    PodStatus,
    PriorityClass,
    Queue,
    ResourceRequirements,
    SubGroup,
    TopologyConstraint,
)
from kai.model.rules import priorities
from kai.model.rules.gpu_groups import gpu_group_labels
from kai.snapshot.times import rfc3339

UNLIMITED = -1.0


def a_node(
    name: str,
    *,
    gpus: int = 8,
    cpu: str = "20000",
    memory: str = "20G",
    pods: int = 110,
    gpu_memory_mib: int = 0,
    labels: Mapping[str, str] | None = None,
    ready: bool = True,
    extra: Mapping[str, str] | None = None,
) -> Node:
    """A node that is ready;"""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extra or {})}
    if gpus:
        allocatable[names.NVIDIA_GPU] = str(gpus)
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if gpu_memory_mib:
        all_labels[names.GPU_MEMORY_LABEL] = str(gpu_memory_mib)
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=all_labels),
        spec=NodeSpec(),
        status=NodeStatus(
            allocatable=allocatable, conditions=[Condition(type="Ready", status="True" if ready else "False")]
        ),
    )


def a_queue(
    name: str,
    *,
    parent: str = "",
    gpu: float = UNLIMITED,
    weight: float = 1,
    limit: float = UNLIMITED,
    cpu: float = UNLIMITED,
    priority: int | None = None,
    created: float = 0,
    reclaim_min_runtime: str | None = None,
    preempt_min_runtime: str | None = None,
) -> Queue:
    """A queue with a GPU quota, weight and limit; CPU and memory are unlimited unless said."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": name, "creationTimestamp": rfc3339(created)},
            "spec": {
                "parentQueue": parent,
                "priority": priority,
                "reclaimMinRuntime": reclaim_min_runtime,
                "preemptMinRuntime": preempt_min_runtime,
                "resources": {
                    "gpu": {"quota": gpu, "limit": limit, "overQuotaWeight": weight},
                    "cpu": {"quota": cpu, "limit": UNLIMITED, "overQuotaWeight": 1},
                    "memory": {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1},
                },
            },
        },
        Queue,
    )


def a_group(
    name: str,
    *,
    queue: str,
    min_member: int | None = 1,
    priority: str = "train",
    namespace: str = "default",
    created: float = 0,
    started: float = 0,
    topology: TopologyConstraint | None = None,
    sub_groups: list[SubGroup] | None = None,
    min_sub_group: int | None = None,
    preemption_delay: str | None = None,
    preemptibility: str = "",
    stale_after: str | None = None,
) -> PodGroup:
    """A pod group; times in unix seconds, ``started`` 0 for never."""
    annotations = {names.LAST_START_TIMESTAMP: rfc3339(started)} if started else None
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=name,
            creation_timestamp=rfc3339(created),
            annotations=annotations,
        ),
        spec=PodGroupSpec(
            min_member=None if sub_groups else min_member,
            min_sub_group=min_sub_group,
            queue=queue,
            priority_class_name=priority,
            preemptibility=preemptibility,
            preemption_delay=preemption_delay,
            staleness_grace_period=stale_after,
            topology_constraint=topology,
            sub_groups=sub_groups,
        ),
    )


def a_pod(
    name: str,
    *,
    group: str = "",
    gpus: int = 0,
    cpu: str = "1",
    memory: str = "1G",
    node: str = "",
    namespace: str = "default",
    phase: str = "",
    fraction: float = 0,
    gpu_memory_mib: int = 0,
    devices: int = 0,
    groups: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    sub_group: str = "",
    deleted: float = 0,
    gated: bool = False,
    scheduler: str = names.SCHEDULER_NAME,
    spec: Mapping[str, Any] | None = None,
    created: float = 0,
) -> Pod:
    """A pod; running if it has a node, pending otherwise, unless a phase is given."""
    requests = {"cpu": cpu, "memory": memory}
    if gpus:
        requests[names.NVIDIA_GPU] = str(gpus)
    annotations = {names.POD_GROUP_ANNOTATION: group} if group else {}
    if fraction:
        annotations[names.GPU_FRACTION] = str(fraction)
    if gpu_memory_mib:
        annotations[names.GPU_MEMORY] = str(gpu_memory_mib)
    if devices:
        annotations[names.GPU_FRACTION_NUM_DEVICES] = str(devices)
    all_labels = dict(labels or {})
    if sub_group:
        all_labels[names.SUBGROUP_LABEL] = sub_group
    all_labels |= gpu_group_labels(groups)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{namespace}-{name}",
            labels=all_labels or None,
            annotations=annotations or None,
            creation_timestamp=rfc3339(created) if created else None,
            deletion_timestamp=rfc3339(deleted) if deleted else None,
        ),
        spec=PodSpec(
            scheduler_name=scheduler,
            node_name=node,
            containers=[Container(name="main", resources=ResourceRequirements(requests=requests))],
            scheduling_gates=[{"name": "gate"}] if gated else None,
            **(spec or {}),
        ),
        status=PodStatus(phase=phase or ("Running" if node else "Pending")),
    )


def a_priority_class(name: str, value: int) -> PriorityClass:
    """A priority class."""
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


def usual_priorities() -> list[PriorityClass]:
    """The classes that the product ships."""
    return [a_priority_class(name, value) for name, value in priorities.CLASSES.items()]
