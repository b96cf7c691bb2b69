"""Extended resources that are backed by device classes (KEP-5004).

Where a node's device plugin does not offer such a resource, the pod gets one synthetic claim with a request
for each container and resource. An ordinary init container uses the devices of containers that start after
it, and of what they lack only the largest request counts, since init containers run one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from kai.model import dra, quantity
from kai.model.objects import Container, Json, Pod
from kai.model.requests import is_sidecar

_Request = tuple[dra.DeviceRequest, int]


def extended_requests(pod: Pod, classes: Mapping[str, str]) -> tuple[list[dra.DeviceRequest], list[Json]]:
    """The synthetic claim's requests by name, and which container uses which of them.

    Args:
        pod: the pod.
        classes: device class by resource, for the resources that are to be claimed.

    Returns:
        Requests named ``container-<i>-request-<j>`` (container in init containers and containers, resource
        in the container's sorted requests), and mappings ``{containerName, resourceName, requestName}``.
    """
    init = pod.spec.init_containers or []
    containers = [*init, *pod.spec.containers]
    brief = [at for at, each in enumerate(init) if not is_sidecar(each)]
    requests: list[dra.DeviceRequest] = []
    mappings: list[Json] = []
    for resource in sorted(classes):
        lasting: dict[int, _Request] = {}
        for at, container in enumerate(containers):
            wanted = _count(container, resource)
            if at in brief or not wanted:
                continue
            request = _request(at, container, resource, classes[resource], wanted)
            lasting[at] = (request, wanted)
            mappings.append(_mapping(container, resource, request.name))
        extra, more = _for_init(brief, containers, resource, classes[resource], lasting)
        mappings += more
        requests += [request for request, _ in lasting.values()]
        if extra is not None:
            requests.append(extra)
    return sorted(requests, key=lambda each: each.name), mappings


def resources_of(pod: Pod) -> frozenset[str]:
    """The names of all resources that the pod's containers ask for."""
    containers = [*(pod.spec.init_containers or []), *pod.spec.containers]
    return frozenset(
        name
        for container in containers
        for name in (container.resources and container.resources.requests) or ()
        if _count(container, name)
    )


def _for_init(
    brief: list[int], containers: list[Container], resource: str, class_: str, lasting: Mapping[int, _Request]
) -> tuple[dra.DeviceRequest | None, list[Json]]:
    """What init containers need beyond the devices of later containers: the largest such request."""
    largest: dra.DeviceRequest | None = None
    own: list[Json] = []
    reused: list[Json] = []
    most = 0
    for at in brief:
        container = containers[at]
        missing = _count(container, resource)
        for later in sorted(each for each in lasting if each > at):
            if missing <= 0:
                break
            request, count = lasting[later]
            reused.append(_mapping(container, resource, request.name))
            missing -= count
        if missing > 0:
            request = _request(at, container, resource, class_, missing)
            own.append(_mapping(container, resource, request.name))
            if missing > most:
                largest, most = request, missing
    if largest is not None:
        own = [{**mapping, "requestName": largest.name} for mapping in own]
    return largest, reused + own


def _count(container: Container, resource: str) -> int:
    requests = (container.resources and container.resources.requests) or {}
    return quantity.whole(requests[resource]) if resource in requests else 0


def _request(at: int, container: Container, resource: str, class_: str, count: int) -> dra.DeviceRequest:
    names = sorted((container.resources and container.resources.requests) or {})
    return dra.DeviceRequest(
        name=f"container-{at}-request-{names.index(resource)}",
        exactly=dra.ExactDeviceRequest(device_class_name=class_, allocation_mode="ExactCount", count=count),
    )


def _mapping(container: Container, resource: str, request: str) -> Json:
    return {"containerName": container.name, "resourceName": resource, "requestName": request}
