"""What is seen of a cluster at one moment, and what has been seen of it before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kai.model import names
from kai.model.objects import Node, PodGroup, Queue
from kai_local.parts.objects import LocalPod

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """API objects by key (``namespace/name``) at ``at`` seconds after the beginning."""

    at: float = 0.0
    pods: Mapping[str, LocalPod] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    groups: Mapping[str, PodGroup] = field(default_factory=dict)
    claims: Mapping[str, Json] = field(default_factory=dict)
    #: Groups (uids) that were changed, or lost somebody who was bound; they need not be whole any more.
    thinned: frozenset[str] = frozenset()
    #: When each queue was made, changed or deleted last.
    changed: Mapping[str, float] = field(default_factory=dict)
    #: Since when each node has been cordoned.
    closed: Mapping[str, float] = field(default_factory=dict)
    #: Nodes whose place in the topology was changed.
    moved: frozenset[str] = frozenset()
    #: Labels of the topology, from coarse to fine.
    levels: tuple[str, ...] = ()
    #: GPUs by NUMA zone, by node.
    zones: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def holding(self) -> Iterable[LocalPod]:
        """Pods that hold something of a node."""
        return (pod for pod in self.pods.values() if pod.spec.node_name and not pod.terminal)

    def members(self) -> dict[str, list[LocalPod]]:
        """Pods by the key of their group."""
        found: dict[str, list[LocalPod]] = defaultdict(list)
        for pod in self.pods.values():
            if key := group_key(pod):
                found[key].append(pod)
        return found


@dataclass(frozen=True, slots=True)
class Breach:
    """Something that must not be. ``subject`` is ``Kind namespace/name``."""

    rule: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """What /proc says of a process. Memory in MiB."""

    at: float
    name: str
    pid: int
    rss_mib: float
    descriptors: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """An event of a log with what follows it, up to the next one."""

    at: float
    process: str
    level: str
    text: str


def group_key(pod: LocalPod) -> str:
    """Of the pod's group, empty without one."""
    name = pod.annotations.get(names.POD_GROUP_ANNOTATION)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def shared_devices(pod: LocalPod) -> tuple[str, ...]:
    """The devices, as the product names them, of which the pod has a part."""
    many = tuple(value for key, value in pod.labels.items() if key.startswith(names.MULTI_GPU_GROUP_PREFIX))
    one = pod.labels.get(names.GPU_GROUP_LABEL)
    return many or ((one,) if one else ())


def is_reservation(pod: LocalPod) -> bool:
    """Whether it holds a device for others."""
    return pod.metadata.namespace == names.RESERVATION_NAMESPACE


def is_ours(pod: LocalPod) -> bool:
    """Whether our scheduler places it."""
    return pod.spec.scheduler_name == names.SCHEDULER_NAME


def called(kind: str, key: str) -> str:
    """A subject."""
    return f"{kind} {key}"
