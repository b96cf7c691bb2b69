"""What happened since a state was last brought up to date, and how it takes that in, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kai.collector import paused
from kai.model.faults import Fault
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.reports import Report
from kai.snapshot.state import ClusterState

#: Order in which changes are applied: what others refer to comes first, which saves work.
_ORDER: Final = {
    kind: rank
    for rank, kind in enumerate([Kind.PRIORITY_CLASS, Kind.TOPOLOGY, Kind.QUEUE, Kind.NODE])
} | {Kind.POD_GROUP: 90, Kind.POD: 91}  # fmt: skip
#: More objects than that at once are a cluster read anew, which is there to stay.
_WHOLE_CLUSTER: Final = 10_000
#: Kinds of which a cluster may have so many.
_MANY: Final = (Kind.POD_GROUP, Kind.POD)


@dataclass(frozen=True, slots=True)
class Unread:
    """A version of an object that nobody can read, by the object's uid, and why."""

    uid: str
    reason: str


@dataclass(slots=True)
class Changes:
    """Changes to take in."""

    #: By kind and key: the newest version, :class:`Unread`, or None: removed.
    objects: dict[Kind, dict[str, Any]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    #: Pods that exist (uids), where a relist has just told them all.
    pods_after_relist: frozenset[str] | None = None

    def ordered(self) -> list[tuple[Kind, dict[str, Any]]]:
        """The objects in the order in which they are best applied."""
        return sorted(self.objects.items(), key=lambda item: _ORDER.get(item[0], 50))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A version of an object that a state goes on without; no error where nobody could read it."""

    kind: Kind
    key: str
    error: Exception | None = None
    #: What its owner is told, where that is news.
    news: Fault | None = None
    #: It is there no more, and could not be taken out.
    gone: bool = False


@dataclass(slots=True, kw_only=True)
class TakenIn:
    """How a state took changes in."""

    rejections: list[Rejection] = field(default_factory=list)
    #: Reports that could not be entered.
    failures: list[Exception] = field(default_factory=list)
    #: Pods that a relist showed to be gone, and to be new, though no change had told so.
    surplus: int = 0
    missing: int = 0


def take_in(state: ClusterState, changes: Changes) -> TakenIn:
    """Bring a state up to date. What cannot be taken in costs nothing else its place."""
    taken = TakenIn()
    count = sum(map(len, changes.objects.values()))
    with paused(lasting=count > _WHOLE_CLUSTER):
        for kind, objects in changes.ordered():
            if kind in _MANY and len(objects) > _WHOLE_CLUSTER:
                _arrive(state, kind, objects, taken)
                continue
            for key, obj in objects.items():
                _apply(state, kind, key, obj, taken)
    for report in changes.reports:
        _enter(state, report, taken)
    if changes.pods_after_relist is not None:
        _compare(state, changes.pods_after_relist, taken)
    return taken


def _apply(state: ClusterState, kind: Kind, key: str, obj: Any, taken: TakenIn) -> None:
    try:
        if obj is None:
            state.remove(kind, key)
        elif isinstance(obj, Unread):
            state.unread(kind, key, uid=obj.uid, reason=obj.reason)
            taken.rejections.append(Rejection(kind=kind, key=key))
        else:
            state.apply(kind, obj)
    except Exception as error:  # noqa: BLE001 (one object must not stop everybody's scheduling)
        taken.rejections.append(_rejected(state, kind, key, obj, error))


def _arrive(state: ClusterState, kind: Kind, objects: Mapping[str, Any], taken: TakenIn) -> None:
    """The same for all that a whole cluster has of a kind."""
    arriving: list[Any] = []
    for key, obj in objects.items():
        if obj is None or isinstance(obj, Unread):
            _apply(state, kind, key, obj, taken)
        else:
            arriving.append(obj)

    def alone(obj: Any) -> None:
        _apply(state, kind, object_key(obj), obj, taken)

    try:
        state.arrive(kind, arriving, alone=alone)
    except Exception:  # noqa: BLE001 (a defect of ours; whichever object it is shows when each comes alone)
        for obj in arriving:
            alone(obj)


def _rejected(state: ClusterState, kind: Kind, key: str, obj: Any, error: Exception) -> Rejection:
    """Go on without an object; its owner is told."""
    if obj is None:
        return Rejection(kind=kind, key=key, error=error, gone=True)
    known = state.faults.get((kind, key))
    fault = state.refuse(kind, key, obj=obj, error=error)
    return Rejection(kind=kind, key=key, error=error, news=None if fault == known else fault)


def _enter(state: ClusterState, report: Report, taken: TakenIn) -> None:
    """What became of a decision; it must not cost the others theirs."""
    try:
        report.enter(state)
    except Exception as error:  # noqa: BLE001 (a defect of ours about one pod)
        taken.failures.append(error)
    if state.unsound:
        state.mend()


def _compare(state: ClusterState, uids: frozenset[str], taken: TakenIn) -> None:
    """After a relist the state must hold the very pods that it told; what differs is repaired."""
    surplus = [task for uid, task in state.tasks.items() if uid not in uids]
    for task in surplus:
        _apply(state, Kind.POD, f"{task.namespace}/{task.name}", None, taken)
    taken.surplus = len(surplus)
    taken.missing = len(uids.difference(state.tasks, (fault.uid for fault in state.faults.values())))
