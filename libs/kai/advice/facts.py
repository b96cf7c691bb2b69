"""What is known of the cluster when somebody asks; of what is None nothing is known, and nothing is said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kai.model import names
from kai.model.objects import Queue


@dataclass(slots=True)
class Capacity:
    """The most that was ever seen of nodes, in base units: cores, bytes, devices."""

    #: How many nodes there were at once.
    nodes: int = 0
    #: By resource, what one node offered.
    largest: dict[str, float] = field(default_factory=dict)
    #: By resource, what all nodes offered together.
    total: dict[str, float] = field(default_factory=dict)
    #: Memory of one GPU.
    gpu_memory_mib: float = 0.0
    #: Keys of labels that nodes had.
    label_keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The cluster as far as it is known, and by which names this installation goes."""

    queues: Mapping[str, Queue] | None = None
    priority_classes: Collection[str] | None = None
    capacity: Capacity | None = None
    #: By device class, the extended resources by which its devices are to be had.
    device_classes: Mapping[str, Collection[str]] | None = None
    #: Labels of namespaces, by name.
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    #: Those that may use priorities of the system.
    system_namespaces: Collection[str] = (names.SYSTEM_NAMESPACE, names.NAMESPACE)
    scheduler_name: str = names.SCHEDULER_NAME
    queue_label_key: str = names.QUEUE_LABEL
    node_pool_label_key: str = names.NODE_POOL_LABEL
