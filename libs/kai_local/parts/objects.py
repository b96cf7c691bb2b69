"""API objects as kubelets and workload controllers read them: more of a pod than scheduling needs."""

from __future__ import annotations

from typing import Any

import msgspec

from kai.model.objects import (
    ApiObject,
    ApiStruct,
    Condition,
    Json,
    PodResourceClaim,
    ResourceClaimStatus,
    ResourceRequirements,
    Toleration,
)
from kai.model.rules.phases import has_ended


class LocalContainer(ApiStruct):
    """A container with what it runs and what it waits for."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    resources: ResourceRequirements | None = None
    env: list[Json] | None = None
    env_from: list[Json] | None = None
    readiness_probe: Json | None = None
    restart_policy: str | None = None


class LocalPodSpec(ApiStruct):
    """``spec`` of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[LocalContainer] = msgspec.field(default_factory=list)
    init_containers: list[LocalContainer] | None = None
    overhead: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Json | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[Json] | None = None
    restart_policy: str = "Always"
    volumes: list[Json] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    readiness_gates: list[Json] | None = None
    termination_grace_period_seconds: int | None = None
    priority: int | None = None
    active_deadline_seconds: int | None = None
    resources: ResourceRequirements | None = None


class LocalPodStatus(ApiStruct):
    """``status`` of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: list[Condition] | None = None
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    container_statuses: list[Json] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] | None = None
    resource_claim_statuses: list[ResourceClaimStatus] | None = None
    extended_resource_claim_status: Json | None = None


class LocalPod(ApiObject):
    """core/v1 Pod."""

    spec: LocalPodSpec = msgspec.field(default_factory=LocalPodSpec)
    status: LocalPodStatus = msgspec.field(default_factory=LocalPodStatus)

    @property
    def terminal(self) -> bool:
        """Whether its containers have ended for good."""
        return has_ended(self.status.phase)

    @property
    def terminating(self) -> bool:
        """Whether somebody has deleted it."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type, if it has been set."""
        return next((c for c in self.status.conditions or () if c.type == kind), None)

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is true."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"


class DataObject(ApiObject):
    """A ConfigMap or a Secret: of the values only the keys matter."""

    data: dict[str, Any] | None = None
    binary_data: dict[str, Any] | None = None

    def has_key(self, key: str) -> bool:
        """Whether there is an entry of this name."""
        return key in (self.data or {}) or key in (self.binary_data or {})


class VolumeClaimStatus(ApiStruct):
    """``status`` of a PersistentVolumeClaim."""

    phase: str = ""


class VolumeClaim(ApiObject):
    """core/v1 PersistentVolumeClaim."""

    spec: Json = msgspec.field(default_factory=dict)
    status: VolumeClaimStatus = msgspec.field(default_factory=VolumeClaimStatus)


class DeviceClaimStatus(ApiStruct):
    """``status`` of a ResourceClaim."""

    allocation: Json | None = None
    reserved_for: list[Json] | None = None


class DeviceClaim(ApiObject):
    """resource.k8s.io/v1 ResourceClaim."""

    status: DeviceClaimStatus = msgspec.field(default_factory=DeviceClaimStatus)
