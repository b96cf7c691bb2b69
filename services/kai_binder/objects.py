"""Pods as the binder watches them: who they are, where, and what else must be done before they are bound."""

from __future__ import annotations

import msgspec

from kai.kube.store import Store
from kai.model.objects import ApiObject, ApiStruct, Condition, Json, ObjectMeta, PodResourceClaim
from kai.model.rules import gpu_groups as rule
from kai.model.rules.phases import has_ended
from kai.model.rules.volumes import claim_name


class WatchedSpec(ApiStruct):
    """What binding asks of a pod's specification."""

    node_name: str = ""
    scheduler_name: str = ""
    volumes: list[Json] | None = None
    resource_claims: list[PodResourceClaim] | None = None


class WatchedStatus(ApiStruct):
    """What binding asks of a pod's status."""

    phase: str = ""
    conditions: list[Condition] | None = None
    extended_resource_claim_status: Json | None = None


class WatchedPod(ApiObject):
    """A pod, without what nobody here reads: it is kept for every pod of ours."""

    spec: WatchedSpec = msgspec.field(default_factory=WatchedSpec)
    status: WatchedStatus = msgspec.field(default_factory=WatchedStatus)

    @property
    def finished(self) -> bool:
        """Whether it holds no device any more."""
        return has_ended(self.status.phase)

    @property
    def has_claims(self) -> bool:
        """Whether volumes or devices are to be claimed for it, or devices were by an earlier attempt."""
        volumes = self.spec.volumes or ()
        return (
            bool(self.spec.resource_claims)
            or self.status.extended_resource_claim_status is not None
            or any(claim_name(volume, self.metadata.name) is not None for volume in volumes)
        )


def gpu_groups(meta: ObjectMeta) -> set[str]:
    """The GPU groups of a pod, as a set."""
    return set(rule.gpu_groups(meta.labels))


def pod_store() -> Store[WatchedPod]:
    """An empty store of pods, to be found by GPU group."""
    return Store(indexes={"group": lambda pod: gpu_groups(pod.metadata)})
