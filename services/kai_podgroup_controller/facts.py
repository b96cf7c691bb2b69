"""What is kept of the objects that we follow: little, since there may be 100,000 of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from kai.model import names
from kai.model.faults import OutOfBounds
from kai.model.objects import (
    ApiObject,
    ApiStruct,
    Condition,
    Container,
    ContainerStatus,
    OwnerReference,
    PodGroup,
    PodGroupResources,
    PodGroupStatus,
    PodResourceClaim,
    ResourceClaimStatus,
    ResourceList,
    ResourceRequirements,
    SchedulingCondition,
)
from kai.model.remembered import forgettable
from kai.model.requests import pod_requests
from kai.model.resource_lists import amounts
from kai.model.rules.device_claims import claim_entries
from kai.model.rules.gpu_shares import Share, asked_share
from kai.model.rules.minimums import pods_at_once

PENDING: Final = "Pending"
RUNNING: Final = "Running"
POD_SCHEDULED: Final = "PodScheduled"

_NO_CONDITION: Final = ("", "", "")

#: Amounts by resource name, in base units.
Amounts = tuple[tuple[str, Decimal], ...]


# --- how objects come in ------------------------------------------------------------------------
class _PodSpec(ApiStruct):
    node_name: str = ""
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] | None = None


class _PodStatus(ApiStruct):
    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: list[ResourceClaimStatus] | None = None


class PodRecord(ApiObject):
    """core/v1 Pod, without most of it."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


# --- what stays ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedPod:
    """A pod: who it is, where it stands, and what it asks for."""

    #: ``namespace/name``.
    key: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    #: ``namespace/name`` of its pod group; empty if it has none yet.
    group: str
    phase: str
    node: str
    #: Status, reason and message of its condition PodScheduled; empty if it has none.
    scheduled: tuple[str, str, str]
    requests: Amounts
    share: Share | None
    received_fraction: bool
    #: ``namespace/name`` of its resource claims, as far as they exist.
    claims: tuple[str, ...]
    #: Whether it is being deleted.
    going: bool
    #: Whether a scheduler evicts it, and the watch does not say so yet; it may be refused.
    evicted: bool = False

    @property
    def alive(self) -> bool:
        """Whether it asks for anything: not before it is accepted, nor after its end."""
        return self.phase in (PENDING, RUNNING)

    @property
    def waits(self) -> bool:
        """Whether it is for a scheduler to place: no gate holds it back, and it has no node yet."""
        return self.phase == PENDING and not self.node and self.scheduled[1] != "SchedulingGated"

    @property
    def allocated(self) -> bool:
        """Whether it holds what it asks for."""
        return self.phase == RUNNING or (self.phase == PENDING and self.scheduled[0] == "True")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGroup:
    """A pod group: its rules for status, and its status as last seen."""

    namespace: str
    name: str
    uid: str
    #: 0 where it is not known.
    resource_version: int
    #: Uids of the pods that it belongs to, if it belongs to pods alone.
    owner_pods: frozenset[str]
    #: The workload that it was made for; none where nobody owns it.
    owner: OwnerReference | None
    node_pool: str
    priority_class: str
    preemptibility: str
    mark_unschedulable: bool
    single_attempt: bool
    #: How many of its pods start together; 0 where it may choose which.
    pods_at_once: int
    timestamps: Mapping[str, str]
    conditions: tuple[SchedulingCondition, ...]
    resources: PodGroupResources | None
    #: Names of the pods of a semi-preemptible group that nobody may take, as its status says.
    core_pods: tuple[str, ...]

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def watched_pod(pod: PodRecord) -> WatchedPod:
    """What counts of a pod."""
    meta = pod.metadata
    group = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
    scheduled = next((c for c in pod.status.conditions or () if c.type == POD_SCHEDULED), None)
    return WatchedPod(
        key=pod.key,
        namespace=intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=version(meta.resource_version),
        # Texts that many pods share are kept once.
        group=intern(f"{meta.namespace}/{group}") if group else "",
        phase=intern(pod.status.phase),
        node=intern(pod.spec.node_name),
        scheduled=_condition(scheduled.status, scheduled.reason, scheduled.message)
        if scheduled
        else _NO_CONDITION,
        requests=_requests(pod),
        share=_gpu_share(pod.annotations),
        received_fraction=pod.annotations.get(names.RECEIVED_RESOURCE_TYPE) == "Fraction",
        claims=_claim_keys(pod),
        going=bool(meta.deletion_timestamp),
    )


def watched_group(group: PodGroup, *, node_pool_label_key: str) -> WatchedGroup:
    """What counts of a pod group."""
    meta, spec, status = group.metadata, group.spec, group.status
    return WatchedGroup(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=version(meta.resource_version),
        owner_pods=_owner_pods(meta.owner_references or ()),
        owner=next(iter(meta.owner_references or ()), None),
        node_pool=group.labels.get(node_pool_label_key) or names.DEFAULT_NODE_POOL,
        priority_class=spec.priority_class_name,
        preemptibility=spec.preemptibility,
        mark_unschedulable=spec.mark_unschedulable is not False,
        single_attempt=spec.scheduling_backoff == 1,
        pods_at_once=pods_at_once(spec) or 0,
        timestamps={
            key: group.annotations[key] for key in names.GROUP_TIMESTAMPS if key in group.annotations
        },
        conditions=tuple(status.scheduling_conditions or ()) if status else (),
        resources=status.resources_status if status else None,
        core_pods=_core_pods(status),
    )


def _core_pods(status: PodGroupStatus | None) -> tuple[str, ...]:
    state = status.scheduling_state if status else None
    return tuple(state.core_pods or ()) if state else ()


def _owner_pods(owners: Sequence[OwnerReference]) -> frozenset[str]:
    pods = frozenset(owner.uid for owner in owners if owner.kind == "Pod" and owner.api_version == "v1")
    return pods if len(pods) == len(owners) else frozenset()


@forgettable
@lru_cache(maxsize=1024)
def _condition(status: str, reason: str, message: str) -> tuple[str, str, str]:
    return status, reason, message


def version(text: str) -> int:
    """A resource version as the number that it is; 0 for none."""
    return int(text) if text.isdecimal() else 0


# --- amounts ------------------------------------------------------------------------------------
def _requests(pod: PodRecord) -> Amounts:
    """As the scheduler charges them; pods of a kind share one result."""
    return _shared(tuple(sorted(pod_requests(pod, amounts).items())))


@forgettable
@lru_cache(maxsize=4096)
def _shared(amounts: Amounts) -> Amounts:
    return amounts


def _gpu_share(annotations: Mapping[str, str]) -> Share | None:
    """What the annotations ask for. Admission refuses malformed ones; here they count as none."""
    try:
        return asked_share(annotations)
    except OutOfBounds:
        return None


# --- claims -------------------------------------------------------------------------------------
def _claim_keys(pod: PodRecord) -> tuple[str, ...]:
    """Claims by their own names, as far as there are objects."""
    return tuple(f"{pod.metadata.namespace}/{each.name}" for each in claim_entries(pod) if each.name)
