"""Which pods hold what of a node, device by device: the last word on what fits.

A scheduler that books a node twice meets a refusal here, as it does with a real kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_local.kubelet.nodes import device_id
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import Amounts, add, amounts, claimed, container_requests, pod_requests

#: Device ids by container and resource.
Devices = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node does not take a pod, in the kubelet's words."""

    reason: str
    message: str


@dataclass(slots=True)
class _Holding:
    requests: Amounts
    devices: Devices


@dataclass(slots=True)
class NodeLedger:
    """The books of one node. Amounts are in thousandths."""

    name: str
    allocatable: Amounts = field(default_factory=dict)
    _held: dict[str, _Holding] = field(default_factory=dict)
    _used: Amounts = field(default_factory=dict)

    def resize(self, allocatable: Mapping[str, str] | None) -> None:
        """Take over what the Node object says it has."""
        self.allocatable = amounts(allocatable)

    def admit(self, pod: LocalPod) -> Devices | Rejection:
        """Enter a pod and hand it its devices, or say why not. A pod that is entered keeps what it has."""
        uid = pod.metadata.uid
        if uid in self._held:
            return self._held[uid].devices
        requests = pod_requests(pod)
        for resource, wanted in sorted(requests.items()):
            rejection = self._short_of(resource, wanted)
            if rejection is not None:
                return rejection
        self._enter(uid, requests, self._assign(pod))
        return self._held[uid].devices

    def restore(self, pod: LocalPod, devices: Devices) -> None:
        """Enter a pod that was admitted before this process began."""
        if pod.metadata.uid not in self._held:
            self._enter(pod.metadata.uid, pod_requests(pod), devices)

    def release(self, uid: str) -> bool:
        """Strike a pod out; says whether it was entered."""
        holding = self._held.pop(uid, None)
        if holding is not None:
            add(self._used, holding.requests, sign=-1)
        return holding is not None

    def __contains__(self, uid: object) -> bool:
        return uid in self._held

    def _enter(self, uid: str, requests: Amounts, devices: Devices) -> None:
        self._held[uid] = _Holding(requests, devices)
        add(self._used, requests)

    def _short_of(self, resource: str, wanted: int) -> Rejection | None:
        capacity, used = self.allocatable.get(resource, 0), self._used.get(resource, 0)
        if wanted == 0 or (resource not in self.allocatable and not _is_device(resource)):
            return None  # what a node does not know it does not check, devices apart
        if used + wanted <= capacity:
            return None
        shown = (n if resource == "cpu" else n // 1000 for n in (wanted, used, capacity))
        requested, taken, there = shown
        return Rejection(
            f"OutOf{resource}",
            f"Pod was rejected: Node didn't have enough resource: {resource}, "
            f"requested: {requested}, used: {taken}, capacity: {there}",
        )

    def _assign(self, pod: LocalPod) -> Devices:
        """The lowest free devices, container by container; init containers borrow those of the others."""
        taken: dict[str, set[str]] = {}
        for holding in self._held.values():
            for by_resource in holding.devices.values():
                for resource, ids in by_resource.items():
                    taken.setdefault(resource, set()).update(ids)
        assigned: Devices = {}
        elsewhere = claimed(pod)
        for container in pod.spec.containers:
            for resource, wanted in container_requests(container).items():
                if _is_device(resource) and wanted and resource not in elsewhere:
                    held = taken.setdefault(resource, set())
                    ids = self._lowest_free(resource, wanted // 1000, held)
                    held.update(ids)
                    assigned.setdefault(container.name, {})[resource] = ids
        return assigned

    def _lowest_free(self, resource: str, count: int, taken: set[str]) -> list[str]:
        every = (device_id(self.name, resource, i) for i in range(self.allocatable[resource] // 1000))
        return [device for device in every if device not in taken][:count]


def _is_device(resource: str) -> bool:
    """Extended resources have a domain; ``hugepages-*`` and the native ones do not."""
    return "/" in resource and not resource.startswith("kubernetes.io/")


def devices_of(pod: LocalPod) -> Devices:
    """The devices that a pod's status records, as written by :mod:`kai_local.kubelet.status`."""
    found: Devices = {}
    for container in pod.status.container_statuses or ():
        for entry in container.get("allocatedResourcesStatus") or ():
            ids = [resource["resourceID"] for resource in entry.get("resources") or ()]
            found.setdefault(container["name"], {})[entry["name"]] = ids
    return found
