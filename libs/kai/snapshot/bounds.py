"""What of an object is beyond its bounds, asked before anything of it is taken in."""

from __future__ import annotations

from typing import Any, Final

from kai.model import access, limits, names, subgroups
from kai.model.faults import OutOfBounds
from kai.model.objects import Node, PriorityClass, Queue, QueueResource, Topology
from kai.model.rules import queue_amounts
from kai.snapshot import devices
from kai.snapshot.kinds import Kind

_SYSTEM: Final = "system-"


def check(kind: Kind, obj: Any) -> None:
    """What an object says for itself; of a pod see :mod:`~kai.snapshot.pod_bounds`.

    Raises:
        OutOfBounds: a field is beyond its bounds, or has not the type that it must have.
    """
    match kind:
        case Kind.POD_GROUP:
            subgroups.check(obj.spec)
        case Kind.QUEUE:
            check_queue(obj)
        case Kind.NODE:
            check_node(obj)
        case Kind.TOPOLOGY:
            check_topology(obj)
        case Kind.PRIORITY_CLASS:
            check_priority_class(obj)
        case _:
            devices.check(kind, obj)


def check_topology(topology: Topology) -> None:
    """Raises OutOfBounds for too many levels."""
    limits.LEVELS.check_count(topology.spec.levels)


def check_priority_class(cls: PriorityClass) -> None:
    """Raises OutOfBounds for a value that Kubernetes gives to no class of such a name."""
    limit = limits.SYSTEM_PRIORITY if cls.metadata.name.startswith(_SYSTEM) else limits.PRIORITY
    limit.check(cls.value)


def check_node(node: Node) -> None:
    """Its taints, and what its labels say of its GPUs; its amounts are looked at where they are read."""
    limits.TAINTS.check_count(node.spec.taints)
    for limit, label in (
        (limits.NODE_GPU_MEMORY, names.GPU_MEMORY_LABEL),
        (limits.NODE_GPUS, names.GPU_COUNT_LABEL),
    ):
        text = node.labels.get(label)
        if text and text.isdecimal():
            limit.integer(text, f"metadata.labels[{label}]")


def check_queue(queue: Queue) -> None:
    """Raises OutOfBounds for numbers with which nobody can calculate."""
    spec = queue.spec
    if spec.priority is not None:
        limits.QUEUE_PRIORITY.check(spec.priority)
    if spec.access is not None:
        access.check_size(spec.access)
    if spec.resources is None:
        return
    for kind, scale in queue_amounts.UNITS.items():
        amounts: QueueResource = getattr(spec.resources, kind)
        where, most = f"spec.resources.{kind}", limits.QUEUE_AMOUNT.most / scale
        for field, amount in (("quota", amounts.quota), ("limit", amounts.limit)):
            if not amount <= most:
                raise OutOfBounds(f"{where}.{field}", f"{amount:g}", f"at most {most:g}, or -1 for no bound")
        if not amounts.over_quota_weight <= limits.QUEUE_WEIGHT.most:
            raise limits.QUEUE_WEIGHT.exceeded(f"{amounts.over_quota_weight:g}", f"{where}.overQuotaWeight")
