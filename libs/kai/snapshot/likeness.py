"""Pods that say the same but for who they are, where, and in which group: those of a workload, and of many.

What follows from the rest is found once for a row of them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from kai.model import names
from kai.model.objects import Pod
from kai.model.requests import resized
from kai.snapshot import pod_bounds, pods
from kai.snapshot.classes import TaskClass
from kai.snapshot.cluster import Cluster
from kai.snapshot.constraints import volume_references
from kai.snapshot.gpu_need import gpu_annotations
from kai.snapshot.rows import PodFacts
from kai.snapshot.status import Status

#: Compared as they are. Where a number may stand for a truth value, as in free JSON, equal is not the same.
SPEC: Final = (
    "scheduler_name",
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "tolerations",
    "scheduling_gates",
    "priority_class_name",
    "priority",
    "preemption_policy",
    "service_account_name",
    "host_network",
    "resources",
)
_SPEC: Final = attrgetter(*SPEC)
_encode: Final = msgspec.msgpack.Encoder().encode

Words = tuple[object, ...]


def words(pod: Pod) -> Words | None:
    """All that a pod says, but for its names, its node, its group and when it was made.

    None if more counts of it than its class, its group and its node.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    if meta.deletion_timestamp or spec.resource_claims or status.extended_resource_claim_status is not None:
        return None
    annotations, node = meta.annotations, spec.node_name
    shared: object = None
    if annotations and not (len(annotations) == 1 and names.POD_GROUP_ANNOTATION in annotations):
        if names.NUMA_OBSERVED in annotations or names.NUMA_PREDICTED in annotations:
            return None
        shared = (gpu_annotations(pod), annotations.get(names.SHARED_GPU_CONFIGMAP))
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    told = status.container_statuses or status.init_container_statuses
    return (
        meta.namespace,
        meta.labels,
        _SPEC(spec),
        status.phase,
        status.qos_class,
        status.nominated_node_name,
        bool(node),
        shared,
        resized(pod) if node and (told or spec.resources is not None) else None,
        _encode((affinity, spread)) if affinity or spread else None,
        volume_references(pod) if spec.volumes else None,
    )


class Alike:
    """What holds for all pods that say this."""

    __slots__ = ("cls", "facts", "labels", "ranks", "status", "words")

    def __init__(self, words: Words, pod: Pod, cls: TaskClass, cluster: Cluster) -> None:
        """By one of them, and its class.

        Raises:
            OutOfBounds: a label of it cannot be worked with.
        """
        self.words = words
        self.cls = cls
        self.labels = labels = pod.metadata.labels
        #: Names and group are those of the first.
        self.facts: PodFacts = pods.facts(pod, cluster.params)
        self.status: Status = pods.status(
            self.facts, now=cluster.now, stuck_after=cluster.params.stuck_in_releasing_seconds
        )
        #: Where it stands among the pods of its group, before age and uid.
        self.ranks = cluster.group_order.key(labels, 0.0, "")[:-2]

    @property
    def simple(self) -> bool:
        """Whether nothing counts of each but class, group and node."""
        return not (self.facts.utility or self.cls.vast or self.status is Status.FAILED)


class Likenesses:
    """Finds what is known of pods by what they say. To be used while classes and orders stay as they are."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last: Alike | None = None
        #: The last of those who ask for such amounts, as pods of several workloads may come in turns.
        self._near: dict[tuple[object, ...], Alike] = {}
        #: The last of each class.
        self._known: dict[TaskClass, Alike] = {}

    def clear(self) -> None:
        """Forget all."""
        self._last = None
        self._near.clear()
        self._known.clear()

    def of(self, pod: Pod) -> Alike | None:
        """What holds for all who say what a pod says; None where more counts of it.

        Raises:
            OutOfBounds: it says what cannot be worked with.
        """
        said = words(pod)
        if said is None:
            return None
        last = self._last
        if last is not None and last.words == said:
            return last
        amounts = _first_amounts(pod)
        found = self._near.get(amounts)
        if found is None or found.words != said:
            found = self._found(pod, said)
            if found is None:
                return None
            self._near[amounts] = found
        self._last = found
        return found

    def _found(self, pod: Pod, said: Words) -> Alike | None:
        labels = pod.metadata.labels
        if labels:
            pod_bounds.check_devices(labels)
        cls = self._cluster.classes.of(pod)
        found = self._known.get(cls)
        if found is None or found.words != said:
            found = Alike(said, pod, cls, self._cluster)
            if not found.simple:
                return None
            self._known[cls] = found
        return found


def _first_amounts(pod: Pod) -> tuple[object, ...]:
    """What the first container requests: no more than a hint who might say the same."""
    containers = pod.spec.containers
    resources = containers[0].resources if containers else None
    return tuple(resources.requests.values()) if resources is not None and resources.requests else ()
