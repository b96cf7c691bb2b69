"""What a pod group asks for and what it holds: ``status.resourcesStatus``.

Requested are the pods that wait or run, allocated those that were given a node. Charged are their requests
as the scheduler charges them, the parts of GPUs, and GPUs of resource claims.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import msgspec

from kai.model import names, resource_lists
from kai.model.decisions import PodGroupOutcome
from kai.model.objects import Json, PodGroupResources, PriorityClass
from kai.model.rules import priorities
from kai_podgroup_controller.facts import WatchedGroup, WatchedPod

#: Names of a core that a status has. As many of the longest are a sixth of what etcd takes of an object.
MOST_NAMED: Final = 1000
_FIELDS = ("allocated", "allocatedNonPreemptible", "requested")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod's charge depends on beside the pod."""

    #: Memory in MiB of each GPU of a node; None if unknown.
    gpu_memory_mib: Callable[[str], int | None]
    #: Device class and number of GPUs of a claim by key; None if it has none or does not exist (yet).
    claimed_gpus: Callable[[str], tuple[str, int] | None]


def resources_status(
    pods: Iterable[WatchedPod],
    surroundings: Surroundings,
    *,
    preemptible: bool,
    core: Collection[str] | None = None,
) -> PodGroupResources:
    """The sums over a group's pods. Amounts are capped at int64, nothing is an error.

    ``core`` are the names of the pods of a semi-preemptible group that nobody may take.
    """
    kept = None if core is None else frozenset(core)
    requested: dict[str, Decimal] = {}
    allocated: dict[str, Decimal] = {}
    firm: dict[str, Decimal] = {}
    for pod in pods:
        if not pod.alive:
            continue
        resource_lists.add(requested, pod.requests)
        resource_lists.add(requested, _requested_share(pod))
        resource_lists.add(requested, _claims(pod, surroundings))
        if pod.allocated:
            sums = (allocated, firm) if kept is not None and pod.name in kept else (allocated,)
            for total in sums:
                resource_lists.add(total, pod.requests)
                resource_lists.add(total, _allocated_share(pod, surroundings))
                resource_lists.add(total, _claims(pod, surroundings))
    if core is None and not preemptible:
        firm = allocated
    return PodGroupResources(
        allocated=resource_lists.rendered(allocated),
        allocated_non_preemptible=resource_lists.rendered(firm),
        requested=resource_lists.rendered(requested),
    )


def is_preemptible(group: WatchedGroup, classes: Mapping[str, PriorityClass]) -> bool:
    """Whether others may take all that the group holds."""
    return priorities.is_preemptible(group.preemptibility, priorities.priority(group.priority_class, classes))


def core_pods(group: WatchedGroup, outcome: PodGroupOutcome | None) -> tuple[str, ...] | None:
    """Names of the pods of a semi-preemptible group that nobody may take; None for other groups.

    As the scheduler says; as its status says while there is no scheduler.
    """
    if not priorities.is_semi_preemptible(group.preemptibility):
        return None
    return group.core_pods if outcome is None else outcome.core_pods


def as_far_as_named(
    wanted: PodGroupResources, stored: PodGroupResources | None, *, core: Collection[str] | None
) -> PodGroupResources:
    """The sums where ``core`` is what a status says: of one that it names in part they stay as ``stored``.

    So they do of one of :data:`MOST_NAMED` pods: nothing tells it from a larger one.
    """
    if core is None or len(core) < MOST_NAMED or stored is None:
        return wanted
    return msgspec.structs.replace(wanted, allocated_non_preemptible=stored.allocated_non_preemptible)


def difference(wanted: PodGroupResources, stored: PodGroupResources | None) -> Json | None:
    """The merge patch of ``resourcesStatus`` that makes ``stored`` say ``wanted``; None if it does.

    Equal amounts written differently are equal, and so are an empty list and none.
    """
    stored = stored or PodGroupResources()
    pairs = (
        (wanted.allocated, stored.allocated),
        (wanted.allocated_non_preemptible, stored.allocated_non_preemptible),
        (wanted.requested, stored.requested),
    )
    patch: Json = {}
    for field, (new, old) in zip(_FIELDS, pairs, strict=True):
        changes = resource_lists.difference(new or {}, old or {})
        if changes:
            patch[field] = changes
    return patch or None


def _requested_share(pod: WatchedPod) -> list[tuple[str, Decimal]]:
    share = pod.share
    if share is None:
        return []
    gpus = share.gpus(None)
    if gpus is not None:
        return [(names.NVIDIA_GPU, gpus)]
    return [(names.GPU_MEMORY_RESOURCE, Decimal(share.memory_mib * share.devices))]


def _allocated_share(pod: WatchedPod, surroundings: Surroundings) -> list[tuple[str, Decimal]]:
    """In devices. Memory on a node that does not tell how much it has cannot be told in devices."""
    share = pod.share
    if share is None or not pod.received_fraction:
        return []
    gpus = share.gpus(surroundings.gpu_memory_mib(pod.node))
    return [] if gpus is None else [(names.NVIDIA_GPU, gpus)]


def _claims(pod: WatchedPod, surroundings: Surroundings) -> list[tuple[str, Decimal]]:
    found = (surroundings.claimed_gpus(claim) for claim in pod.claims)
    return [(device_class, Decimal(count)) for device_class, count in filter(None, found)]
