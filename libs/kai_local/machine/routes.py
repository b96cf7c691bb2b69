"""Which pod of this machine is meant by a host and a port that somebody in the cluster connects to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kai_local.machine.launch import Manifest, port_of
from kai_local.machine.network import Address, NoRoute
from kai_local.parts.this_machine import KUBELET_PORT, NODE
from kai_local.processes.ports import LOOPBACK


@dataclass(frozen=True, slots=True)
class Backend:
    """A pod that runs here, and where its process listens."""

    pod: Manifest
    address: str
    ready: bool


def route(
    host: str, port: int, *, services: Iterable[Manifest], backends: Iterable[Backend], kubelet: Address
) -> Address:
    """Where to connect: to this machine's kubelet, or to a ready pod behind a Service.

    Raises:
        NoRoute: nobody is there.
    """
    if host in (NODE, LOOPBACK) or port == KUBELET_PORT:
        if host != NODE:
            raise NoRoute("the node is simulated: nothing that its pods do can be seen")
        return kubelet
    service = next((one for one in services if _is_called(one, host)), None)
    if service is None:
        raise NoRoute(f"no Service has the address {host}")
    meta, spec = service["metadata"], service["spec"]
    entry = next((one for one in spec.get("ports") or () if one["port"] == port), None)
    if entry is None:
        raise NoRoute(f"service {meta['name']} has no port {port}")
    for backend in backends:
        if backend.ready and _selects(service, backend.pod):
            return f"{backend.address}:{port_of(backend.pod, entry.get('targetPort', port))}"
    raise NoRoute(f'no endpoints available for service "{meta["name"]}"')


def _is_called(service: Manifest, host: str) -> bool:
    meta = service["metadata"]
    return host in (service["spec"].get("clusterIP"), f"{meta['name']}.{meta['namespace']}.svc")


def _selects(service: Manifest, pod: Manifest) -> bool:
    selector: Mapping[str, Any] = service["spec"].get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    same = service["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and bool(selector) and all(labels.get(key) == value for key, value in selector.items())
