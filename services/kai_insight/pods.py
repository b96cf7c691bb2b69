"""What is kept of a pod: who it is, from when to when it holds its place, and what it holds there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from sys import intern
from typing import Final

import msgspec

from kai.history.records import NAME_CHARACTERS, Ending, cut
from kai.model import names
from kai.model.faults import OutOfBounds
from kai.model.objects import (
    ApiObject,
    ApiStruct,
    Condition,
    Container,
    ContainerStatus,
    PodResourceClaim,
    ResourceClaimStatus,
    ResourceList,
    ResourceRequirements,
)
from kai.model.quantity import INT64_MAX
from kai.model.requests import pod_requests
from kai.model.resource_lists import amounts
from kai.model.rules.device_claims import claim_entries
from kai.model.rules.gpu_shares import Share, asked_share
from kai.model.rules.gpus import gpus_of_quota
from kai.snapshot.times import seconds

_ENDINGS: Final = {"Succeeded": Ending.SUCCEEDED, "Failed": Ending.FAILED}


# --- how objects come in ------------------------------------------------------------------------
class _Terminated(ApiStruct):
    finished_at: str | None = None


class _State(ApiStruct):
    terminated: _Terminated | None = None


class _ContainerStatus(ContainerStatus):
    state: _State | None = None


class _PodSpec(ApiStruct):
    node_name: str = ""
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] | None = None


class _PodStatus(ApiStruct):
    phase: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: list[ResourceClaimStatus] | None = None


class PodRecord(ApiObject):
    """core/v1 Pod, without most of it."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


# --- what stays ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Amounts:
    """What a pod holds."""

    cpu_millis: int
    memory_bytes: int
    gpus: float


@dataclass(frozen=True, slots=True)
class Devices:
    """What GPUs cost: MiB of each of a node, and how many a claim (by key) has; None: unknown."""

    memory_mib: Callable[[str], int | None]
    claimed: Callable[[str], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod that has a node. Times are Unix seconds, 0 where nobody tells."""

    key: str
    uid: str
    namespace: str
    name: str
    #: ``namespace/name`` of its pod group; empty if it has none.
    group: str
    user: str
    node: str
    created: float
    bound: float
    #: One of :class:`Ending`, and since when; empty while it holds its place.
    ending: str
    ended: float
    #: When somebody asked for it to go.
    asked_to_go: float
    cpu_millis: int
    memory_bytes: int
    whole_gpus: int
    share: Share | None
    #: ``namespace/name`` of its resource claims.
    claims: tuple[str, ...]

    @property
    def group_name(self) -> str:
        """The name of its pod group as it is kept: anybody may write anything into the annotation."""
        return cut(self.group.rpartition("/")[2], NAME_CHARACTERS)

    def holds(self, devices: Devices) -> Amounts:
        """What it holds of its node."""
        shared = self.share.gpus(devices.memory_mib(self.node)) if self.share is not None else None
        gpus = float(self.whole_gpus + (shared or 0))
        gpus += sum(devices.claimed(claim) or 0 for claim in self.claims)
        return Amounts(self.cpu_millis, self.memory_bytes, gpus)


def placed(pod: PodRecord) -> Placed | None:
    """What counts of a pod; None while it has no node."""
    if not pod.spec.node_name:
        return None
    meta, status = pod.metadata, pod.status
    group = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
    requests = pod_requests(pod, amounts)
    ending = _ENDINGS.get(status.phase, "")
    return Placed(
        key=pod.key,
        uid=meta.uid,
        namespace=intern(meta.namespace),
        name=meta.name,
        group=intern(f"{meta.namespace}/{group}") if group else "",
        user=intern(user_of(pod)),
        node=intern(pod.spec.node_name),
        created=seconds(meta.creation_timestamp),
        bound=_bound(status),
        ending=ending,
        ended=_ended(status) if ending else 0.0,
        asked_to_go=_asked_to_go(pod),
        cpu_millis=_whole(requests.get("cpu", Decimal(0)) * 1000),
        memory_bytes=_whole(requests.get("memory", Decimal(0))),
        whole_gpus=_whole(gpus_of_quota(requests)),
        share=_share(pod.annotations),
        claims=tuple(f"{meta.namespace}/{each.name}" for each in claim_entries(pod) if each.name),
    )


def user_of(owned: ApiObject) -> str:
    """Whose work it is, as it says itself; empty where it does not."""
    said = owned.labels.get(names.USER_KEY) or owned.annotations.get(names.USER_KEY, "")
    return cut(said, NAME_CHARACTERS)


def _bound(status: _PodStatus) -> float:
    scheduled = (each for each in status.conditions or () if each.type == "PodScheduled")
    said = next((each.last_transition_time for each in scheduled if each.status == "True"), None)
    return seconds(said) or seconds(status.start_time)


def _ended(status: _PodStatus) -> float:
    """When the last of its containers ended."""
    states = (each.state for each in status.container_statuses or () if each.state)
    return max((seconds(each.terminated.finished_at) for each in states if each.terminated), default=0.0)


def _asked_to_go(pod: PodRecord) -> float:
    """A pod says until when it may take its time."""
    until = seconds(pod.metadata.deletion_timestamp)
    return until - (pod.metadata.deletion_grace_period_seconds or 0) if until else 0.0


def _whole(amount: Decimal) -> int:
    return min(ceil(amount), INT64_MAX)


def _share(annotations: Mapping[str, str]) -> Share | None:
    """Admission refuses what cannot be read; here it counts as none."""
    try:
        return asked_share(annotations)
    except OutOfBounds:
        return None
