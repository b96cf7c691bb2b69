"""Which scaling pods there should be: a pure function of who waits and which there are.

A cluster autoscaler adds nodes for pods that are said to fit nowhere, and counts whole GPUs. For those who
wait for parts of GPUs a scaling pod asks for whole ones, in their place:

1. A scaling pod goes when the pod that it stands for is gone, got a node or asks for something else. One that
   somebody placed all the same goes when it has ended, or is stuck where it holds what the others wait for.
2. For some time after one went none is made for pods of the same namespace: who waited may fit by now, and
   only has to be placed.
3. Parts are added up among pods of a namespace that the same nodes suit: two halves are one GPU, for which
   one of both gets a scaling pod. Those with most devices come first, and what is surplus then goes. Nobody
   counts on what another namespace's pod asks for, which is never to be had if its owner likes.
4. So many are made for a namespace and no more, before some of them are placed: who makes thousands of pods,
   each for a place of its own, must not flood a cluster autoscaler.
5. One that has waited very long counts for nobody but the pod that it stands for: no node is to be had that
   suits this pod, but maybe one for the others.
6. Nobody counts on a scaling pod that the API server did not take when it was last asked to, as where a quota
   has no room for as much, or a policy forbids what its pod asks for. It is tried again after all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from kai.model.rules.gpu_shares import GPU_CENTI
from kai_node_scale_adjuster.objects import ScalingPod, WaitingPod, Wish, scaling_pod_name

#: None was removed.
NEVER: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the decision goes by. Times are in seconds."""

    #: The part of a device that somebody is taken to need who asks for memory.
    memory_ratio: Decimal = Decimal("0.1")
    cool_down: float = 60.0
    patience: float = 900.0
    stuck_after: float = 60.0
    #: Scaling pods without a node for pods of the same namespace.
    most_waiting: int = 100

    def gpu_centi(self, waiting: WaitingPod) -> int:
        """Hundredths of devices that a pod needs."""
        share = waiting.share
        each = share.portion_centi or max(1, round(self.memory_ratio * GPU_CENTI))
        return each * share.devices


@dataclass(frozen=True, slots=True)
class Creation:
    """A scaling pod to be made, of this name."""

    waiting: WaitingPod
    name: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A scaling pod to be deleted, and why."""

    scaling: ScalingPod
    reason: str


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What is to be done now, and after how many seconds to look again if nothing happens before."""

    create: tuple[Creation, ...] = ()
    remove: tuple[Removal, ...] = ()
    again_in: float | None = None


@dataclass(slots=True)
class _Stand:
    """Somebody who waits, with his scaling pod if he has one, and with the devices that it asks for."""

    waiting: WaitingPod
    scaling: ScalingPod | None
    asked: int
    #: Whether no scaling pod could be made for him.
    refused: bool = False


def adjust(
    waiting: Iterable[WaitingPod],
    scaling: Collection[ScalingPod],
    *,
    rules: Rules,
    now: float,
    removed_ago: Mapping[str, float] = NEVER,
    taken: Iterable[str] = (),
    undeletable: Collection[str] = (),
    refused: Collection[str] = (),
) -> Adjustment:
    """What brings the scaling pods in line at the time ``now``, in Unix seconds.

    ``removed_ago`` are the seconds since one was removed last, by the namespace of the pods that they stand
    for, ``taken`` names of other pods in the namespace of scaling pods, and ``undeletable`` uids of scaling
    pods that the API server did not let go: trying again may not either. ``refused`` are uids of pods that
    wait, for which it did not take a scaling pod.
    """
    pods = {each.key: each for each in waiting if each.wish is not Wish.NONE}
    present = sorted((each for each in scaling if not each.going), key=lambda each: each.key)
    remove = list(_without_cause(present, pods, rules=rules, now=now))
    gone = {removal.scaling.key for removal in remove}
    kept = {each.stands_for: each for each in present if each.key not in gone}
    stands = [_stand(each, kept.get(key), refused) for key, each in sorted(pods.items())]
    groups = list(_groups(stands, rules=rules, now=now))
    going = [each.scaling for each in remove if each.scaling.metadata.uid not in undeletable]
    ago = {**removed_ago, **{namespace_of(each.stands_for): 0.0 for each in going}}
    cooling = {name: left for name, seconds in ago.items() if (left := rules.cool_down - seconds) > 0}
    missing = [stand for group in groups for stand in _missing(group, rules)]
    missing.sort(key=lambda stand: stand.refused)
    missing = list(_within_bounds(missing, kept.values(), rules))
    in_use = {*taken, *(each.metadata.name for each in scaling)}
    pauses = [cooling.get(namespace_of(stand.waiting.key), 0.0) for stand in missing]
    create = list(_made((stand for stand, pause in zip(missing, pauses, strict=True) if not pause), in_use))
    remove += [Removal(each, "the others are enough") for group in groups for each in _surplus(group, rules)]
    times = [_next_time(each, rules) - now for each in kept.values()]
    times += pauses
    return Adjustment(tuple(create), tuple(remove), min((time for time in times if time > 0), default=None))


# --- whose cause is gone -----------------------------------------------------------------------
def _without_cause(
    present: Iterable[ScalingPod], pods: dict[str, WaitingPod], *, rules: Rules, now: float
) -> Iterator[Removal]:
    seen: set[str] = set()
    for scaling in present:
        reason = _why_gone(scaling, pods.get(scaling.stands_for), rules=rules, now=now)
        if not reason and scaling.stands_for in seen:
            reason = "another one stands for the same pod"
        if reason:
            yield Removal(scaling, reason)
        else:
            seen.add(scaling.stands_for)


def _why_gone(scaling: ScalingPod, waiting: WaitingPod | None, *, rules: Rules, now: float) -> str:
    if scaling.ended:
        return "it has ended"
    if waiting is None or scaling.stands_for_uid not in ("", waiting.uid):
        return "its pod is gone or needs no node any more"
    if scaling.devices != waiting.share.devices:
        return "its pod asks for another number of devices"
    if scaling.placed and _next_time(scaling, rules) <= now:
        return "it does not end on its node; see its status and whether its image can be pulled"
    return ""


def _next_time(scaling: ScalingPod, rules: Rules) -> float:
    """When waiting, for its node or for its end, comes to an end."""
    return scaling.since + (rules.stuck_after if scaling.placed else rules.patience)


# --- how many ----------------------------------------------------------------------------------
def _stand(waiting: WaitingPod, scaling: ScalingPod | None, refused: Collection[str]) -> _Stand:
    asked = scaling.devices if scaling is not None else 0
    return _Stand(waiting, scaling, asked, refused=waiting.uid in refused)


def _groups(stands: Iterable[_Stand], *, rules: Rules, now: float) -> Iterator[list[_Stand]]:
    """Those who can share devices, but for those whose scaling pod has waited in vain for its node."""
    groups: dict[tuple[str, bytes], list[_Stand]] = {}
    for stand in stands:
        silent = stand.scaling is None and stand.waiting.wish is Wish.SILENT
        if not silent and not _timed_out(stand.scaling, rules=rules, now=now):
            namespace = namespace_of(stand.waiting.key)
            groups.setdefault((namespace, stand.waiting.places), []).append(stand)
    yield from groups.values()


def _timed_out(scaling: ScalingPod | None, *, rules: Rules, now: float) -> bool:
    return scaling is not None and not scaling.placed and _next_time(scaling, rules) <= now


def _needed(group: Iterable[_Stand], rules: Rules) -> int:
    """Whole devices for all of them."""
    return -(-sum(rules.gpu_centi(stand.waiting) for stand in group) // GPU_CENTI)


def _missing(group: list[_Stand], rules: Rules) -> list[_Stand]:
    """Who is to get a scaling pod, so that there are enough devices, and enough of them together."""
    needed, total = _needed(group, rules), sum(stand.asked for stand in group)
    largest = max(stand.asked for stand in group)
    found = []
    for stand in sorted(group, key=lambda stand: (stand.refused, -stand.waiting.share.devices)):
        devices = stand.waiting.share.devices
        if stand.scaling is None and (needed > total or devices > largest):
            found.append(stand)
            if not stand.refused:
                total += devices
                largest = max(largest, devices)
    return found


def _within_bounds(missing: Iterable[_Stand], kept: Iterable[ScalingPod], rules: Rules) -> Iterator[_Stand]:
    """As many as may be made for each namespace."""
    waiting = Counter(namespace_of(each.stands_for) for each in kept if not each.placed)
    for stand in missing:
        namespace = namespace_of(stand.waiting.key)
        if waiting[namespace] < rules.most_waiting:
            waiting[namespace] += 1
            yield stand


def namespace_of(key: str) -> str:
    """The namespace of ``namespace/name``."""
    return key.partition("/")[0]


def _made(missing: Iterable[_Stand], in_use: set[str]) -> Iterator[Creation]:
    """The scaling pods to be made, which count from now on unless they may be refused again."""
    for stand in missing:
        name = scaling_pod_name(stand.waiting.key)
        if name in in_use:
            name = scaling_pod_name(stand.waiting.key, plain=False)
        in_use.add(name)
        if not stand.refused:
            stand.asked = stand.waiting.share.devices
        yield Creation(stand.waiting, name)


def _surplus(group: list[_Stand], rules: Rules) -> Iterator[ScalingPod]:
    """Scaling pods without a node that are not needed beside the others.

    Those of pods that say nothing stay: whether they are needed will be told.
    """
    needed = _needed(group, rules)
    wanted = max(stand.waiting.share.devices for stand in group)
    rest = sorted(group, key=lambda stand: stand.asked)
    for stand in tuple(rest):
        silent = stand.waiting.wish is Wish.SILENT
        if stand.scaling is None or stand.scaling.placed or silent:
            continue
        others = [other.asked for other in rest if other is not stand]
        if sum(others) >= needed and max(others, default=0) >= wanted:
            rest.remove(stand)
            yield stand.scaling
