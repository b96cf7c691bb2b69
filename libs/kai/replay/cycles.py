"""Cycles of a scheduler as they were: a *base*, all that decisions depended on between two cycles, and then
for each cycle what had changed before it and what it decided. Who begins with the base, takes in what had
changed and decides again, cycle after cycle, has to come to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from kai.engine import Engine, SchedulerConfig
from kai.engine.queueing.turns import Turns
from kai.model.decisions import BindDecision, Cut, CycleResult, Eviction, Nomination, ResourceVector
from kai.model.failures import all_over, blame_one_of
from kai.model.ids import PodGroupKey
from kai.replay import circumstances, objects, remainder
from kai.replay.circumstances import Circumstances, CircumstancesError
from kai.snapshot import codec
from kai.snapshot.changes import Changes, Unread, take_in
from kai.snapshot.codec import SnapshotError
from kai.snapshot.kinds import Kind
from kai.snapshot.reports import Report
from kai.snapshot.state import ClusterState

_KINDS: Final = {kind.kubernetes: kind for kind in Kind}


class RecordingError(ValueError):
    """The bytes are no recording of this version; the message says where."""


# --- the base ------------------------------------------------------------------------------------------
class CannotBeTold(Exception):
    """There can be no base now; the message says why."""


class _Base(msgspec.Struct, frozen=True):
    snapshot: bytes
    circumstances: bytes


class Decider(Protocol):
    """An engine, as far as a recording needs to know it."""

    config: SchedulerConfig
    last_usage: Mapping[str, ResourceVector]
    turns: Turns

    @property
    def sets_aside(self) -> bool:
        """Whether cycles go on without something that one of them failed over."""


def take_base(state: ClusterState, engine: Decider, *, now: float) -> bytes:
    """The base between two cycles; ``now`` is in Unix seconds. Costs time by the number of objects.

    Raises:
        CannotBeTold: something is set aside for a while, and only the engine knows how long.
        FailedOver: an object cannot be encoded.
    """
    if engine.sets_aside:
        raise CannotBeTold("cycles go on without something that one of them failed over")
    told = Circumstances(
        now=now,
        config=engine.config,
        usage=engine.last_usage,
        faults=tuple(state.faults.values()),
        remainder=remainder.take(state, engine.turns),
    )
    cut = codec.encode(codec.cut(state))
    return msgspec.msgpack.encode(_Base(cut, circumstances.encode(told, state.params)))


# --- a cycle -------------------------------------------------------------------------------------------
class Decided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a cycle decided, in order."""

    binds: tuple[BindDecision, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    nominations: tuple[Nomination, ...] = ()

    @classmethod
    def of(cls, result: CycleResult) -> Decided:
        """Of its result."""
        return cls(binds=result.binds, evictions=result.evictions, nominations=result.nominations)


class _Change(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Of one object; neither object nor reason where it is gone."""

    key: str
    obj: msgspec.Raw = msgspec.Raw(b"null")
    uid: str = ""
    unread: str = ""


class CycleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cycle. ``number`` counts all of a term, ``version`` those in which something changed for others.

    A cycle that changed nothing for others has the version of the one before it.
    """

    number: int
    version: int
    #: As of which it decided, Unix seconds.
    now: float
    changes: dict[Kind, list[_Change]] = {}
    reports: list[Report] = []
    #: Uids of all pods, where a relist had told them.
    relisted: list[str] | None = None
    usage: dict[str, ResourceVector] = {}
    cuts: tuple[Cut, ...] = ()
    decided: Decided = Decided()


_as_json: Final = msgspec.json.Encoder().encode
_RECORD: Final = msgspec.json.Decoder(CycleRecord)


def write_cycle(
    batch: Changes,
    result: CycleResult,
    *,
    number: int,
    version: int,
    now: float,
    usage: Mapping[str, ResourceVector],
) -> bytes:
    """A cycle's record, of what it took in and what came of it. Costs time by the number of changes.

    Raises:
        FailedOver: an object that changed, or a decision about one, cannot be encoded.
    """
    found = CycleRecord(
        number=number,
        version=version,
        now=now,
        changes={
            kind: [_written(kind, key, obj) for key, obj in told.items()]
            for kind, told in batch.objects.items()
        },
        reports=batch.reports,
        relisted=None if batch.pods_after_relist is None else sorted(batch.pods_after_relist),
        usage=dict(usage),
        cuts=result.cuts,
        decided=Decided.of(result),
    )
    try:
        return _as_json(found)
    except Exception:
        about_pods: list[BindDecision | Eviction | Nomination] = [
            *result.binds,
            *result.evictions,
            *result.nominations,
        ]
        blame_one_of(
            about_pods,
            _as_json,
            about=lambda each: f"Pod {each.pod.namespace}/{each.pod.name}",
        )
        raise


def read_cycle(data: bytes) -> CycleRecord:
    """The inverse of :func:`write_cycle`.

    Raises:
        RecordingError: these are not the bytes of a record.
    """
    try:
        return _RECORD.decode(data)
    except msgspec.MsgspecError as error:
        raise RecordingError(f"a recorded cycle cannot be read: {error}") from error


def _written(kind: Kind, key: str, obj: Any) -> _Change:
    if isinstance(obj, Unread):
        return _Change(key, uid=obj.uid, unread=obj.reason)
    if obj is None:
        return _Change(key)
    with all_over(f"{kind.kubernetes} {key}"):
        return _Change(key, msgspec.Raw(_as_json(obj)))


def _read(kind: Kind, change: _Change) -> Any:
    if change.uid or change.unread:
        return Unread(change.uid, change.unread)
    data = bytes(change.obj)
    return None if data == b"null" else objects.stored(kind, data)


# --- again ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Again:
    """A cycle that was decided again."""

    record: CycleRecord
    result: CycleResult
    #: Pod groups that changed with it, those that are gone included; None: any may have.
    touched: frozenset[PodGroupKey] | None = None

    @property
    def same(self) -> bool:
        """Whether it decided what it decided then."""
        return Decided.of(self.result) == self.record.decided

    def differences(self) -> Iterator[str]:
        """What was decided only then, and only now; a line for each."""
        then, now = self.record.decided, Decided.of(self.result)
        for what, before, after in (
            ("bind", _binds(then), _binds(now)),
            ("eviction", _evictions(then), _evictions(now)),
            ("nomination", _nominations(then), _nominations(now)),
        ):
            yield from (f"{what} of {each}: decided then, not now" for each in before if each not in after)
            yield from (f"{what} of {each}: decided now, not then" for each in after if each not in before)
            if before != after and sorted(before) == sorted(after):
                yield f"{what}s of {len(before)} pods: in another order"
            elif before == after and getattr(then, f"{what}s") != getattr(now, f"{what}s"):
                yield f"{what}s of {len(before)} pods: the same places, and other details"


class Replay:
    """Decides cycles again, one after the other, beginning with a base."""

    def __init__(self, base: bytes) -> None:
        """Ready for the first cycle after it.

        Raises:
            RecordingError: these are not the bytes of a base.
        """
        try:
            found = msgspec.msgpack.decode(base, type=_Base)
            told = circumstances.decode(found.circumstances)
            self.state = codec.restore(codec.decode(found.snapshot))
        except (msgspec.MsgspecError, CircumstancesError, SnapshotError) as error:
            raise RecordingError(f"the base of a recording cannot be read: {error}") from error
        remainder.put(told.remainder, self.state, faults=told.faults)
        for fault in told.faults:
            if fault.kind in _KINDS:  # a newer scheduler may know more kinds
                self.state.set_fault(_KINDS[fault.kind], fault.key, fault)
        self.engine = Engine(told.config, contained=True)
        self.engine.turns.tell(told.remainder.passes)
        self.engine.last_usage = told.usage

    def take_in(self, record: CycleRecord) -> None:
        """What had changed before a cycle.

        Raises:
            RecordingError: an object cannot be read.
        """
        try:
            changed = {
                kind: {change.key: _read(kind, change) for change in changes}
                for kind, changes in record.changes.items()
            }
        except msgspec.MsgspecError as error:
            raise RecordingError(f"cycle {record.number}: an object cannot be read: {error}") from error
        relisted = None if record.relisted is None else frozenset(record.relisted)
        take_in(self.state, Changes(changed, list(record.reports), relisted))

    def decide(self, record: CycleRecord) -> Again:
        """Take in what had changed before a cycle, and decide it again; raises as :meth:`take_in`."""
        self.take_in(record)
        self.state.settle(record.now)
        told = record.changes.get(Kind.POD_GROUP, ())
        changed = (PodGroupKey(change.key) for change in told)
        touched = {*self.state.touched_jobs, *self.state.gone_jobs, *changed}
        result = self.engine.run(self.state, record.now, usage=record.usage, cuts=record.cuts)
        for decided in (result.binds, result.evictions, result.nominations):
            touched.update(each.pod.pod_group for each in decided)
        # Where a cycle failed over something, sums may have been found anew, which touches everything.
        return Again(record, result, None if result.setbacks else frozenset(touched))


def _binds(decided: Decided) -> list[str]:
    return [
        f"{each.pod.namespace}/{each.pod.name} to {each.node}"
        + (f" ({', '.join(each.gpu_groups)})" if each.gpu_groups else "")
        for each in decided.binds
    ]


def _evictions(decided: Decided) -> list[str]:
    return [
        f"{each.pod.namespace}/{each.pod.name} by {each.action} for {each.evictor or 'nobody'}"
        for each in decided.evictions
    ]


def _nominations(decided: Decided) -> list[str]:
    return [f"{each.pod.namespace}/{each.pod.name} to {each.node}" for each in decided.nominations]
