"""Queues hold what they may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from e2e.soak.frame import Breach, Frame, called, group_key, shared_devices
from e2e.soak.rules.groups import preemptible
from e2e.soak.rules.placement import portion
from kai.model import names
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import pod_requests

_ROUNDING = 0.02
#: What was decided before a queue was changed is carried out after it.
_UNDER_WAY_SECONDS = 20.0


def limits_are_kept(before: Frame, now: Frame) -> Iterator[Breach]:
    """No pod is bound whose queue, or one above it, is over a limit of what the pod asks for with it.

    A queue that is over a lowered limit may go on, and take what that limit is not about.
    """
    for name, held, limit in _over("limit", before, now, firm=False):
        yield Breach("queue over its limit", called("Queue", name), f"{held}, limit {limit:g}")


def firm_work_keeps_to_quotas(before: Frame, now: Frame) -> Iterator[Breach]:
    """No non-preemptible pod is bound over a quota of its queue, or of one above it."""
    for name, held, quota in _over("quota", before, now, firm=True):
        message = f"{held} non-preemptible, quota {quota:g}"
        yield Breach("non-preemptible over quota", called("Queue", name), message)


def _over(key: str, before: Frame, now: Frame, *, firm: bool) -> Iterator[tuple[str, str, float]]:
    """Queues that got more of a resource than their quota or limit: what they hold of it, and that."""
    for resource, unit in _UNITS.items():
        for name in _queues_that_got(resource, before, now, firm=firm):
            held, most = _held(now, name, resource, firm=firm), _bound(now, name, resource, key)
            if 0 <= most < held - _ROUNDING:
                yield name, f"{held:g} {unit}", most


def _queues_that_got(resource: str, before: Frame, now: Frame, *, firm: bool) -> set[str]:
    """Those that are charged for a pod that asks for this and was bound, and that nobody changed just now."""
    found: set[str] = set()
    for key, pod in now.pods.items():
        old = before.pods.get(key)
        was_bound = old is not None and old.metadata.uid == pod.metadata.uid and old.spec.node_name
        if pod.spec.node_name and old is not None and not was_bound and _AMOUNTS[resource](now, pod):
            found.update(_line(now, pod, firm=firm))
    return found - _changing(now)


def _changing(frame: Frame) -> set[str]:
    """Queues that were changed just now, and all above them, which may hold what they did not before."""
    return {
        above
        for name, at in frame.changed.items()
        if frame.at - at < _UNDER_WAY_SECONDS
        for above in _up_from(frame, name)
    }


def _line(frame: Frame, pod: LocalPod, *, firm: bool) -> list[str]:
    """The queue that is charged for a pod, and all above it; with ``firm`` only if it may not be evicted."""
    group = frame.groups.get(group_key(pod))
    if group is None or (firm and preemptible(group)):
        return []
    return _up_from(frame, group.spec.queue)


def _up_from(frame: Frame, name: str) -> list[str]:
    """A queue and all above it, as far as there are such."""
    found: list[str] = []
    while name in frame.queues and name not in found:
        found.append(name)
        name = frame.queues[name].spec.parent_queue
    return found


def _held(frame: Frame, queue: str, resource: str, *, firm: bool) -> float:
    """What all have that stay, in a queue's unit."""
    return sum(
        _AMOUNTS[resource](frame, pod)
        for pod in frame.holding()
        if not pod.terminating and queue in _line(frame, pod, firm=firm)
    )


def _bound(frame: Frame, queue: str, resource: str, key: str) -> float:
    """The quota or limit that a queue says; -1 for none."""
    resources = frame.queues[queue].spec.resources
    return float(getattr(getattr(resources, resource), key)) if resources is not None else -1.0


# --- what a pod has, in the unit in which queues say it ----------------------------------------
def _gpus(frame: Frame, pod: LocalPod) -> float:
    """GPUs of a pod, whole and in parts; MIG and claims are left out, so it is less where there are such."""
    whole = pod_requests(pod).get(names.NVIDIA_GPU, 0) / 1000
    node = frame.nodes.get(pod.spec.node_name)
    return whole + (portion(pod, node) * len(shared_devices(pod)) if node is not None else 0.0)


def _millicores(_: Frame, pod: LocalPod) -> float:
    return float(pod_requests(pod).get("cpu", 0))


def _megabytes(_: Frame, pod: LocalPod) -> float:
    return pod_requests(pod).get("memory", 0) / 1000 / 10**6


#: By resource, as a queue names it: what a pod has of it, and what that is counted in.
_AMOUNTS: Final[Mapping[str, Callable[[Frame, LocalPod], float]]] = {
    "gpu": _gpus,
    "cpu": _millicores,
    "memory": _megabytes,
}
_UNITS: Final[Mapping[str, str]] = {"gpu": "GPUs", "cpu": "millicores", "memory": "MB"}
