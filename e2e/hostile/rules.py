"""What must hold for everybody else while a tenant does his worst. Pure functions of what was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from e2e.hostile import site
from e2e.soak.frame import Breach, Frame, ProcessSample, called, is_ours, is_reservation, shared_devices
from e2e.soak.journal import Entry
from e2e.soak.rules.latency import Placed
from e2e.soak.rules.placement import portion
from kai.model import names
from kai.model.resource_lists import parsed
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import pod_requests

#: On a machine of its own; the busier it is, the longer.
LONGEST_SECONDS = 5.0
#: What memory may be more than before by part, and at least: the size of a page of an allocator is no leak.
MEMORY_PART, MEMORY_MIB = 0.2, 15.0
_ROUNDING = 0.02


@dataclass(slots=True)
class Grants:
    """What pods said of themselves when they got their node: what they may say later changes nothing."""

    #: Devices that pods of ours say they have a part of, which somebody else has put on their nodes. They
    #: are charged for these.
    named: frozenset[str] = frozenset()
    _waited: set[str] = field(default_factory=set)
    _granted: dict[str, LocalPod] = field(default_factory=dict)

    def as_granted(self, frame: Frame) -> Frame:
        """The frame with the pods that were placed by us, as they were then, and those that wait."""
        pods: dict[str, LocalPod] = {}
        there: set[str] = set()
        named: set[str] = set()
        for key, pod in frame.pods.items():
            uid = pod.metadata.uid
            there.add(uid)
            if not pod.spec.node_name:
                self._waited.add(uid)
            elif uid in self._waited and is_ours(pod):
                self._granted.setdefault(uid, pod)
            if is_reservation(pod) or not pod.spec.node_name:
                pods[key] = pod
            elif uid in self._granted:
                pods[key] = _said_then(pod, self._granted[uid])
            elif is_ours(pod) and not pod.terminal:
                named.update(shared_devices(pod))
        self.named = frozenset(named)
        self._waited &= there
        self._granted = {uid: pod for uid, pod in self._granted.items() if uid in there}
        return replace(frame, pods=pods)


def _said_then(now: LocalPod, then: LocalPod) -> LocalPod:
    meta = then.metadata
    said = msgspec.structs.replace(now.metadata, labels=meta.labels, annotations=meta.annotations)
    return msgspec.structs.replace(now, metadata=said)


def what_is_held_is_charged(frame: Frame) -> Iterator[Breach]:
    """Queues are charged at least what pods that were placed hold: whole GPUs, and parts of shared ones."""
    held: dict[str, float] = defaultdict(float)
    for pod in frame.holding():
        if is_reservation(pod) or pod.terminating:
            continue
        group = frame.groups.get(
            f"{pod.metadata.namespace}/{pod.annotations.get(names.POD_GROUP_ANNOTATION, '')}"
        )
        node = frame.nodes.get(pod.spec.node_name)
        if node is None:
            continue
        gpus = pod_requests(pod).get(names.NVIDIA_GPU, 0) / 1000 + portion(pod, node) * len(
            shared_devices(pod)
        )
        held[group.spec.queue if group is not None else "none"] += gpus
    for queue, gpus in held.items():
        found = frame.queues.get(queue)
        status = found.status if found is not None else None
        told = float(parsed(((status and status.allocated) or {}).get(names.NVIDIA_GPU, "0")))
        if told < gpus - _ROUNDING:
            yield Breach("held without charge", called("Queue", queue), f"{gpus:g} GPUs, charged {told:g}")


def devices_are_held_for_somebody(frame: Frame, named: Collection[str] = ()) -> Iterator[Breach]:
    """No reservation pod holds a device that no pod has a part of; ``named``: :attr:`Grants.named`."""
    used = {device for pod in frame.holding() if not is_reservation(pod) for device in shared_devices(pod)}
    waiting = {
        device for pod in frame.pods.values() if not pod.spec.node_name for device in shared_devices(pod)
    }
    for key, pod in frame.pods.items():
        device = pod.labels.get(names.GPU_GROUP_LABEL, "")
        if is_reservation(pod) and pod.spec.node_name and device not in used | waiting | {*named}:
            yield Breach("held for nobody", called("Pod", key), f"device {device}")


def others_are_placed_soon(
    placed: Iterable[Placed], waiting: Iterable[Placed], *, slowness: Callable[[float, float], float]
) -> Iterator[Breach]:
    """The other team's pods are bound within seconds. ``slowness``: of the machine between two moments."""
    for pod in (*placed, *waiting):
        allowed = LONGEST_SECONDS * slowness(pod.created_at, pod.bound_at)
        if pod.probe and pod.seconds > allowed:
            yield Breach("late", called("Pod", pod.pod), f"{pod.seconds:.1f} s, of {allowed:.1f} s at most")


def others_are_left_alone(frame: Frame, ended: Collection[str]) -> Iterator[Breach]:
    """Nobody evicts the other team's pods but the team (``ended``: uids), and no node refuses them."""
    for key, pod in frame.pods.items():
        if pod.metadata.namespace != site.TEAM_NAMESPACE:
            continue
        if pod.status.phase == "Failed":
            yield Breach("failed", called("Pod", key), pod.status.reason or "it does not say why")
        elif pod.terminating and pod.metadata.uid not in ended:
            yield Breach("evicted", called("Pod", key), "not by its owner")


def everybody_is_answered(entries: Iterable[Entry]) -> Iterator[Breach]:
    """The API server takes what was sent, or says what is wrong with it: nothing of ours fails over it."""
    for entry in entries:
        if entry.outcome.startswith("failed"):
            about = entry.subjects[-1] if entry.subjects else called("request", entry.what)
            yield Breach("no answer", about, f"{entry.what}: {entry.outcome[:400]}")


def memory_comes_back(before: Sequence[ProcessSample], after: Sequence[ProcessSample]) -> Iterator[Breach]:
    """Each process is as large as it was, within a fifth. The smallest sample of each time counts."""
    was, is_ = smallest(before), smallest(after)
    for name, mib in is_.items():
        first = was.get(name)
        if first is not None and mib > first + max(MEMORY_MIB, MEMORY_PART * first):
            yield Breach("memory stays", called("process", name), f"{mib:.0f} MiB, before {first:.0f} MiB")


def smallest(samples: Iterable[ProcessSample]) -> dict[str, float]:
    """MiB by process, of its smallest sample."""
    found: dict[str, float] = {}
    for sample in samples:
        found[sample.name] = min(sample.rss_mib, found.get(sample.name, sample.rss_mib))
    return found
