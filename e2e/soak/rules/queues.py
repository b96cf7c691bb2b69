"""Queues hold what they may."""

from __future__ import annotations

from collections.abc import Iterator

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
    """No pod is bound whose queue, or one above it, is over its GPU limit with it."""
    for name in _queues_that_got_something(before, now):
        held, limit = _held(now, name, firm=False), _gpu(now, name, "limit")
        if 0 <= limit < held - _ROUNDING:
            yield Breach("queue over its limit", called("Queue", name), f"{held:g} GPUs, limit {limit:g}")


def firm_work_keeps_to_quotas(before: Frame, now: Frame) -> Iterator[Breach]:
    """No non-preemptible pod is bound over the GPU quota of its queue, or of one above it."""
    for name in _queues_that_got_something(before, now, firm=True):
        held, quota = _held(now, name, firm=True), _gpu(now, name, "quota")
        if 0 <= quota < held - _ROUNDING:
            message = f"{held:g} non-preemptible GPUs, quota {quota:g}"
            yield Breach("non-preemptible over quota", called("Queue", name), message)


def _queues_that_got_something(before: Frame, now: Frame, *, firm: bool = False) -> set[str]:
    found: set[str] = set()
    for key, pod in now.pods.items():
        old = before.pods.get(key)
        was_bound = old is not None and old.metadata.uid == pod.metadata.uid and old.spec.node_name
        if pod.spec.node_name and old is not None and not was_bound and _gpus(now, pod):
            found.update(_line(now, pod, firm=firm))
    return {
        name for name in found if now.at - now.changed.get(name, -_UNDER_WAY_SECONDS) >= _UNDER_WAY_SECONDS
    }


def _line(frame: Frame, pod: LocalPod, *, firm: bool) -> list[str]:
    """The queue that is charged for a pod, and all above it; with ``firm`` only if it may not be evicted."""
    group = frame.groups.get(group_key(pod))
    if group is None or (firm and preemptible(group)):
        return []
    found, name = [], group.spec.queue
    while name in frame.queues and name not in found:
        found.append(name)
        name = frame.queues[name].spec.parent_queue
    return found


def _held(frame: Frame, queue: str, *, firm: bool) -> float:
    """GPUs of all that stays."""
    return sum(
        _gpus(frame, pod)
        for pod in frame.holding()
        if not pod.terminating and queue in _line(frame, pod, firm=firm)
    )


def _gpus(frame: Frame, pod: LocalPod) -> float:
    """GPUs of a pod, whole and in parts; MIG and claims are left out, so it is less where there are such."""
    whole = pod_requests(pod).get(names.NVIDIA_GPU, 0) / 1000
    node = frame.nodes.get(pod.spec.node_name)
    return whole + (portion(pod, node) * len(shared_devices(pod)) if node is not None else 0.0)


def _gpu(frame: Frame, queue: str, key: str) -> float:
    resources = frame.queues[queue].spec.resources
    return float(getattr(resources.gpu, key)) if resources is not None else -1.0
