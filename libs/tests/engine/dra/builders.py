"""Devices and claims in the fewest words: slices, classes, requests and claims of one driver."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from kai.model import dra
from kai.snapshot.state import Kind

DRIVER = "gpu.example.com"
_KINDS = {
    dra.DeviceClass: Kind.DEVICE_CLASS,
    dra.ResourceClaim: Kind.RESOURCE_CLAIM,
    dra.ResourceSlice: Kind.RESOURCE_SLICE,
}


def in_cluster(*things: Any) -> list[tuple[Kind, Any]]:
    """The same as a cluster has them: plain JSON, each with its kind."""
    return [(_KINDS[type(each)], msgspec.to_builtins(each)) for each in things]


def a_device(
    name: str,
    *,
    model: str = "A100",
    counters: Mapping[str, str] | None = None,
    taint: str = "",
    **more: Any,
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": name,
        "attributes": {"model": {"string": model}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    if counters:
        spec["consumesCounters"] = [{"counterSet": "gpu", "counters": _amounts(counters)}]
    if taint:
        spec["taints"] = [{"key": taint, "value": "", "effect": "NoSchedule"}]
    return spec | more


def a_slice(
    node: str | None,
    devices: int | Collection[str | dict[str, Any]],
    *,
    name: str = "",
    pool: str = "",
    generation: int = 1,
    slices: int = 1,
    counters: Mapping[str, str] | None = None,
    **more: Any,
) -> dra.ResourceSlice:
    """Devices as descriptions, as names, or ``gpu-0``, ``gpu-1`` … as many as are said."""
    found = [f"gpu-{at}" for at in range(devices)] if isinstance(devices, int) else devices
    spec: dict[str, Any] = {
        "driver": DRIVER,
        "pool": {"name": pool or node, "generation": generation, "resourceSliceCount": slices},
        "devices": [a_device(each) if isinstance(each, str) else each for each in found],
    } | more
    if node:
        spec["nodeName"] = node
    if counters:
        spec["sharedCounters"] = [{"name": "gpu", "counters": _amounts(counters)}]
    made = {"metadata": {"name": name or f"{node}-slice"}, "spec": spec}
    return msgspec.convert(made, dra.ResourceSlice)


def _amounts(counters: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {key: {"value": value} for key, value in counters.items()}


def a_class(name: str = "gpu", *expressions: str, created: str = "", **spec: Any) -> dra.DeviceClass:
    metadata = {"name": name} | ({"creationTimestamp": created} if created else {})
    made = {"metadata": metadata, "spec": {"selectors": _selectors(expressions)} | spec}
    return msgspec.convert(made, dra.DeviceClass)


def a_request(
    name: str = "req",
    *,
    count: int = 1,
    mode: str = "ExactCount",
    device_class: str = "gpu",
    expressions: Collection[str] = (),
    **more: Any,
) -> dict[str, Any]:
    exact = {
        "deviceClassName": device_class,
        "allocationMode": mode,
        "count": count,
        "selectors": _selectors(expressions),
    }
    return {"name": name, "exactly": exact | more}


def _selectors(expressions: Collection[str]) -> list[dict[str, Any]]:
    return [{"cel": {"expression": each}} for each in expressions]


def a_claim(
    name: str,
    *requests: dict[str, Any],
    queue: str = "q",
    namespace: str = "ns",
    constraints: Collection[Any] = (),
    users: Collection[str] = (),
    holds: Collection[str] = (),
    node: str = "",
    config: Collection[Any] = (),
    extended_of: str = "",
) -> dra.ResourceClaim:
    """``holds`` names devices of ``node``, allocated to the first request.

    It says of itself that it was made for the extended resources of the pod with the uid ``extended_of``.
    """
    status: dict[str, Any] = {
        "reservedFor": [{"resource": "pods", "name": each, "uid": each} for each in users]
    }
    if holds:
        results = [{"request": "req", "driver": DRIVER, "pool": node, "device": each} for each in holds]
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        status["allocation"] = {"devices": {"results": results}, "nodeSelector": selector}
    devices = {
        "requests": list(requests) or [a_request()],
        "constraints": list(constraints),
        "config": list(config),
    }
    labels = {"kai.scheduler/queue": queue}
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    if extended_of:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "any", "uid": extended_of, "controller": True}
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [owner]
    made = {"metadata": metadata, "spec": {"devices": devices}, "status": status}
    return msgspec.convert(made, dra.ResourceClaim)
