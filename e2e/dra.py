"""Devices of a DRA driver: what it publishes, and how pods claim them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from e2e.manifests import a_pod
from kai.model import names


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver with a class of its name. With ``extended``, its devices are to be had like any resource."""

    name: str
    #: Spec of pods that go where its devices are.
    here: dict[str, Any]
    extended: str = ""

    def device_class(self) -> dict[str, Any]:
        """The class of all its devices."""
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f"device.driver == '{self.name}'"}}]}
        if self.extended:
            spec["extendedResourceName"] = self.extended
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def template(self, namespace: str, *, devices: int = 1, device_class: str = "") -> dict[str, Any]:
        """A claim template ``devices-<count>``, one claim for each pod that names it."""
        exactly = {"deviceClassName": device_class or self.name, "count": devices}
        requests = [{"name": "gpu", "exactly": exactly}]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"devices-{devices}", "namespace": namespace},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }

    def a_claim(self, name: str, namespace: str, queue: str) -> dict[str, Any]:
        """A claim for one device, which pods may share that are in this queue."""
        requests = [{"name": "gpu", "exactly": {"deviceClassName": self.name, "count": 1}}]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "labels": {names.QUEUE_LABEL: queue}},
            "spec": {"devices": {"requests": requests}},
        }

    def a_sharer(self, name: str, namespace: str, queue: str, *, claim: str) -> dict[str, Any]:
        """A pod that uses a claim of that name."""
        named = {"name": "gpu", "resourceClaimName": claim}
        pod = a_pod(name, namespace, queue, spec=self.here | {"resourceClaims": [named]})
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return pod

    def a_pod(
        self, name: str, namespace: str, queue: str, *, devices: int = 1, **template: Any
    ) -> dict[str, Any]:
        """A pod that claims so many devices by the template of that count."""
        claim = {"name": "gpu", "resourceClaimTemplateName": f"devices-{devices}"}
        spec = self.here | {"resourceClaims": [claim]} | template.pop("spec", {})
        pod = a_pod(name, namespace, queue, spec=spec, **template)
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return pod
