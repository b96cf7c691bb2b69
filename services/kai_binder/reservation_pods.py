"""The pod that holds a whole device, so that we can give parts of it to others: its name and manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.claims import Claim, claims_of
from kai.model.flag_rules import RESOURCE_PARTS
from kai.model.ids import PodUid
from kai.model.objects import ApiObject, ApiStruct, PullPolicy
from kai.model.rules.phases import has_ended

CONTAINER: Final = "resource-reservation"
#: What these pods may do unless an installation says otherwise: they look at a device, and tell which it is.
POD_SECURITY: Final[dict[str, Any]] = {"seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
#: Whoever has a part of the device leaves the node by his own tolerations, and loses it by nobody else's.
_STAYS: Final[dict[str, Any]] = {"operator": "Exists", "effect": "NoExecute"}
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


class ReservationSpec(ApiStruct):
    """``spec`` of a reservation pod, as far as it is read back."""

    node_name: str = ""


class ReservationStatus(ApiStruct):
    """``status`` of a reservation pod, as far as it is read back."""

    phase: str = ""
    message: str = ""


class ReservationPod(ApiObject):
    """A reservation pod as the API server tells it."""

    spec: ReservationSpec = msgspec.field(default_factory=ReservationSpec)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)

    @property
    def group(self) -> str:
        """The GPU group that it stands for."""
        return self.labels.get(names.GPU_GROUP_LABEL, "")

    @property
    def device(self) -> str:
        """The device that it got; empty until its program has told."""
        return self.annotations.get(names.RESERVED_GPU, "")

    @property
    def lost(self) -> bool:
        """Whether it has ended, or is about to: what it held is not held any more."""
        return bool(self.metadata.deletion_timestamp) or has_ended(self.status.phase)

    @property
    def claims(self) -> dict[PodUid, Claim]:
        """The claims on it by pod uid; malformed ones count as expired."""
        return claims_of(self.annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationTemplate:
    """What all reservation pods have in common."""

    namespace: str = names.RESERVATION_NAMESPACE
    service_account: str = names.RESERVATION_SERVICE_ACCOUNT
    app_label: str = names.RESERVATION_APP
    image: str = ""
    image_pull_policy: PullPolicy = "IfNotPresent"
    runtime_class_name: str = ""
    resources: dict[str, Any] = field(default_factory=dict)
    pod_security_context: dict[str, Any] = field(default_factory=dict)
    container_security_context: dict[str, Any] = field(default_factory=dict)
    #: On nodes without real devices: a pod that sleeps; somebody else tells which device it got.
    fake_gpu_nodes: bool = False

    def manifest(self, *, node: str, group: str, annotations: dict[str, str]) -> dict[str, Any]:
        """The pod for one group on one node, bound there directly: no scheduler is asked."""
        spec: dict[str, Any] = {
            "nodeName": node,
            "serviceAccountName": self.service_account,
            "enableServiceLinks": False,
            # Its program ends with 0 where it finds another device than it has told, and only there.
            "restartPolicy": "OnFailure",
            "tolerations": [_STAYS],
            "containers": [self._container()],
        }
        if self.runtime_class_name:
            spec["runtimeClassName"] = self.runtime_class_name
        if self.pod_security_context:
            spec["securityContext"] = self.pod_security_context
        return {
            "metadata": {
                "name": reservation_name(node, group),
                "namespace": self.namespace,
                "labels": {names.APP_LABEL: self.app_label, names.GPU_GROUP_LABEL: group},
                "annotations": {_DO_NOT_DISRUPT: "true", **annotations},
            },
            "spec": spec,
        }

    def _container(self) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": CONTAINER,
            "image": self.image,
            "imagePullPolicy": self.image_pull_policy,
            "resources": {part: self._amounts(part) for part in RESOURCE_PARTS},
            "env": [
                _from_field("POD_NAME", "metadata.name"),
                _from_field("POD_NAMESPACE", "metadata.namespace"),
            ],
        }
        if self.fake_gpu_nodes:
            container |= {"image": "ubuntu", "args": ["sleep", "infinity"]}
        if self.container_security_context:
            container["securityContext"] = self.container_security_context
        return container

    def _amounts(self, part: str) -> dict[str, Any]:
        """One device, and what else is configured, other devices aside."""
        configured = self.resources.get(part) or {}
        return {key: value for key, value in configured.items() if "/gpu" not in key} | {
            names.NVIDIA_GPU: "1"
        }


def reservation_name(node: str, group: str) -> str:
    """The one name that the pod for a group on a node can have, so that two attempts make one pod."""
    return f"gpu-reservation-{hashlib.sha256(f'{node}/{group}'.encode()).hexdigest()[:16]}"


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
