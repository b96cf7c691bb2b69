"""What statuses say is what pods hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from e2e.soak.frame import Breach, Frame, called, shared_devices
from kai.model import names
from kai.model.resource_lists import parsed
from kai_local.parts.requests import pod_requests

_ROUNDING = 0.02


def groups_are_charged_what_their_pods_hold(frame: Frame) -> Iterator[Breach]:
    """A group's status says how many whole GPUs its pods have; groups with parts or claims are left out."""
    members = frame.members()
    for key, group in frame.groups.items():
        pods = members.get(key, [])
        if any(
            shared_devices(pod) or pod.spec.resource_claims or _asks_for_parts(pod.annotations)
            for pod in pods
        ):
            continue
        held = sum(
            pod_requests(pod).get(names.NVIDIA_GPU, 0) / 1000
            for pod in pods
            if pod.spec.node_name and not pod.terminal
        )
        status = group.status.resources_status if group.status is not None else None
        told = _amounts((status and status.allocated) or {}).get(names.NVIDIA_GPU, 0.0)
        if abs(told - held) > _ROUNDING:
            yield Breach(
                "status differs", called("PodGroup", key), f"{told:g} GPUs, and its pods hold {held:g}"
            )


def queues_are_charged_what_is_in_them(frame: Frame) -> Iterator[Breach]:
    """A queue's status is the sum of the groups and the queues in it."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for group in frame.groups.values():
        status = group.status.resources_status if group.status is not None else None
        _add(sums[group.spec.queue], _amounts((status and status.allocated) or {}))
    for name, queue in frame.queues.items():
        if queue.spec.parent_queue:
            _add(sums[queue.spec.parent_queue], _allocated(frame, name))
    for name in frame.queues:
        told, held = _allocated(frame, name), sums[name]
        for resource in sorted(told.keys() | held.keys()):
            if abs(told.get(resource, 0.0) - held.get(resource, 0.0)) > _ROUNDING:
                message = f"{told.get(resource, 0.0):g} {resource}, and {held.get(resource, 0.0):g} are in it"
                yield Breach("status differs", called("Queue", name), message)
                break


def _allocated(frame: Frame, queue: str) -> dict[str, float]:
    status = frame.queues[queue].status
    return _amounts((status and status.allocated) or {})


def _amounts(listed: Mapping[str, str]) -> dict[str, float]:
    return {name: float(parsed(text)) for name, text in listed.items()}


def _add(to: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        to[name] += amount


def _asks_for_parts(annotations: Mapping[str, str]) -> bool:
    return names.GPU_FRACTION in annotations or names.GPU_MEMORY in annotations
