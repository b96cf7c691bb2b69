"""Who executes which decision: a state machine without I/O.

Events go in (decisions, binders coming and going, results, time), instructions come out. What it
guarantees, under any order of events:

* Every decision is settled exactly once, as bound or as failed.
* A decision whose binder went away is handed to another one *unchanged*: executing the same decision
  twice is harmless. It is settled as failed (so that the engine may decide differently) only when nobody
  can act on it any more: a lost binder stops by itself within :data:`LOST_BINDER_SECONDS`.
* A decision about which a binder was silent for too long is settled as failed, in the same way, once its
  stream is cut: another binder would be silent about it, too.
* A bind that a binder still does by a decision of an earlier leader ends, too: by its result, by a decision
  of ours about the pod, or once nobody can do it any more.
* Everything on one node goes to one binder (rendezvous hash), and stays with it until that is done.
* The pods of a gang that needs preparation are bound only once all of them are prepared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import blake2b
from typing import Final

from kai.model.decisions import BindDecision, ResourceType
from kai.model.ids import PodUid
from kai.wire.decisions import BIND_SECONDS, SILENCE_SECONDS, Assignment, InFlight, Result, ResultStatus

#: A decision that no binder started within this time is decided anew.
DECISION_SECONDS: Final = 30.0
#: How long a binder whose stream broke may go on: until silence tells it, and for one API call more.
LOST_BINDER_SECONDS: Final = SILENCE_SECONDS + 12.0
#: A binder that gives no result for so much longer than a bind may take there is cut off.
EXECUTION_MARGIN: Final = 120.0

NOBODY: Final = "no binder took the decision in time"
ABANDONED: Final = "another pod of the gang could not be prepared"
SILENT: Final = "the binder gave no result"


# --- instructions ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Send:
    """Give these to a binder; none must be started after ``deadline`` (Unix seconds)."""

    binder: str
    deadline: float
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Tell a binder to bind, or to undo, what it has prepared (decision ids)."""

    binder: str
    bind: tuple[str, ...] = ()
    abandon: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of a decision."""

    decision_id: str
    decision: BindDecision
    bound: bool
    reason: str = ""
    #: Whether the node did not give what the decision took of it.
    node_at_fault: bool = False


@dataclass(frozen=True, slots=True)
class Inherited:
    """A binder still binds this pod for an earlier leader, or that has ended (``bound``)."""

    pod_uid: PodUid
    node: str
    bound: bool | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Break the stream of a binder that does not do its work."""

    binder: str


Instruction = Send | Verdict | Settled | Inherited | Cut


# --- state -------------------------------------------------------------------------------------
class _Phase(Enum):
    #: Nobody has it.
    WAITING = auto()
    #: A binder has it.
    SENT = auto()
    #: A binder has prepared it and waits for the verdict.
    PREPARED = auto()
    #: It has failed, but a lost binder might still act on it.
    FAILED = auto()


@dataclass(slots=True, eq=False)
class _Gang:
    #: None while preparing; then what was said.
    bind: bool | None = None
    members: dict[str, _Work] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return self.bind is None and all(work.phase is _Phase.PREPARED for work in self.members.values())


@dataclass(slots=True, eq=False)
class _Work:
    decision_id: str
    decision: BindDecision
    deadline: float
    gang: _Gang | None
    phase: _Phase = _Phase.WAITING
    binder: str = ""
    sent_at: float = 0.0
    #: Until when a binder that was lost may still act.
    acted_on_until: float = 0.0
    failure: tuple[str, bool] = ("", False)

    @property
    def assignment(self) -> Assignment:
        prepare_only = self.gang is not None and self.gang.bind is None
        return Assignment(decision_id=self.decision_id, decision=self.decision, prepare_only=prepare_only)


@dataclass(slots=True, eq=False)
class _Inheritance:
    """A bind by a decision that is none of ours, or none any more."""

    pod_uid: PodUid
    node: str
    #: Who does it; empty where that one is lost.
    binder: str
    since: float
    #: Until when a binder that was lost may still act.
    acted_on_until: float = 0.0


@dataclass(slots=True)
class _Binder:
    capacity: int
    #: After how many seconds without a result it is cut off.
    patience: float
    work: dict[str, _Work] = field(default_factory=dict)


def takes_preparation(decision: BindDecision) -> bool:
    """Whether more than the bind itself is to be done, as far as the decision tells."""
    return (
        decision.resource_type is ResourceType.FRACTION
        or bool(decision.claim_allocations)
        or decision.extended_claim is not None
    )


class Dispatcher:
    """Decisions of one leader. ``now`` is in Unix seconds throughout, and never goes back."""

    def __init__(self, *, epoch: int) -> None:
        self.epoch = epoch
        self._count = 0
        self._work: dict[str, _Work] = {}
        self._waiting: dict[str, _Work] = {}
        self._binders: dict[str, _Binder] = {}
        #: Node -> binder and number of decisions that it has for that node.
        self._busy_nodes: dict[str, tuple[str, int]] = {}
        #: By decision id; none is of a pod that one of our own decisions is about.
        self._inherited: dict[str, _Inheritance] = {}

    def __len__(self) -> int:
        return len(self._work)

    @property
    def binders(self) -> Collection[str]:
        """Ids of the connected binders."""
        return self._binders.keys()

    def outstanding(self) -> dict[str, tuple[BindDecision, float]]:
        """Decisions that are not settled, with their deadlines, by id."""
        return {key: (work.decision, work.deadline) for key, work in self._work.items()}

    # --- events --------------------------------------------------------------------------------
    def decide(
        self,
        decisions: Sequence[BindDecision],
        *,
        now: float,
        needs_preparation: Callable[[BindDecision], bool] = takes_preparation,
        is_gang: Callable[[str], bool] = bool,
    ) -> list[Instruction]:
        """New decisions, each for a pod that has no unsettled one."""
        self._disinherit(decision.pod.uid for decision in decisions)
        by_group: dict[str, list[BindDecision]] = {}
        for decision in decisions:
            by_group.setdefault(decision.pod.pod_group, []).append(decision)
        for pod_group, members in by_group.items():
            together = len(members) > 1 and is_gang(pod_group) and any(map(needs_preparation, members))
            gang = _Gang() if together else None
            for decision in members:
                self._add(decision, gang, now + DECISION_SECONDS)
        return self._hand_out(now)

    def connect(
        self,
        binder: str,
        *,
        capacity: int,
        longest_bind: float = BIND_SECONDS,
        in_flight: Sequence[InFlight] = (),
        now: float,
    ) -> list[Instruction]:
        """A binder is there. What it could not stop stays its own.

        ``longest_bind``: seconds that a bind may take there; less than by default counts as that.
        """
        told: list[Instruction] = self.disconnect(binder, now=now, hand_out=False)
        self._binders[binder] = _Binder(max(1, capacity), max(BIND_SECONDS, longest_bind) + EXECUTION_MARGIN)
        for item in in_flight:
            work = self._work.get(item.decision_id)
            if work is None:
                told += self._inherit(item, binder, now)
            elif work.phase in (_Phase.WAITING, _Phase.FAILED):
                self._give(work, binder, now)
        return told + self._hand_out(now)

    def disconnect(self, binder: str, *, now: float, hand_out: bool = True) -> list[Instruction]:
        """A binder is gone, or at least cannot be heard; what it had is for the others."""
        gone = self._binders.pop(binder, None)
        if gone is None:
            return []
        for bind in self._inherited.values():
            if bind.binder == binder:
                bind.binder, bind.acted_on_until = "", now + LOST_BINDER_SECONDS
        silent = [work for work in gone.work.values() if _is_overdue(work, gone, now)]
        for work in list(gone.work.values()):
            self._take_back(work)
            work.acted_on_until = now + LOST_BINDER_SECONDS
            if work.gang is not None and work.gang.bind is False:
                work.phase, work.failure = _Phase.FAILED, (ABANDONED, False)
            else:
                self._wait(work)
        told: list[Instruction] = []
        for work in silent:
            if work.phase is _Phase.WAITING:  # else it has failed with its gang
                told += self._failed(work, SILENT, now=now)
        return told + self._hand_out(now) if hand_out else told

    def results(self, binder: str, results: Iterable[Result], *, now: float) -> list[Instruction]:
        """What a binder has to tell; news of a decision that it lost to another one counts only if good."""
        told: list[Instruction] = []
        for result in results:
            work = self._work.get(result.decision_id)
            if work is None:
                told += self._end_inherited(result.decision_id, bound=result.status is ResultStatus.BOUND)
            elif result.status is ResultStatus.BOUND:
                told += self._settle(work, bound=True, now=now)
            elif work.binder != binder:
                continue
            elif result.status is ResultStatus.PREPARED:
                told += self._prepared(work, now)
            else:
                told += self._failed(work, result.reason, node_at_fault=result.node_at_fault, now=now)
        return told

    def tick(self, *, now: float) -> list[Instruction]:
        """Time has passed: settle what expired, cut off who is silent. To be called every second or so."""
        told: list[Instruction] = []
        for work in list(self._work.values()):
            if self._work.get(work.decision_id) is not work:
                continue  # settled with its gang
            if work.phase is _Phase.WAITING and now > max(work.deadline, work.acted_on_until):
                told += self._failed(work, NOBODY, now=now)
            elif work.phase is _Phase.FAILED and now > work.acted_on_until:
                told += self._settle(work, bound=False, now=now)
        for decision_id, bind in list(self._inherited.items()):
            if not bind.binder and now > bind.acted_on_until:
                told += self._end_inherited(decision_id, bound=False)
        silent = {
            name
            for name, binder in self._binders.items()
            if any(_is_overdue(work, binder, now) for work in binder.work.values())
        } | {
            bind.binder
            for bind in self._inherited.values()
            if bind.binder and now > bind.since + self._binders[bind.binder].patience
        }
        return told + [Cut(binder) for binder in sorted(silent)]

    # --- of earlier leaders --------------------------------------------------------------------
    def _inherit(self, item: InFlight, binder: str, now: float) -> list[Instruction]:
        if any(work.decision.pod.uid == item.pod_uid for work in self._work.values()):
            return []
        self._inherited[item.decision_id] = _Inheritance(item.pod_uid, item.node, binder, now)
        return [Inherited(item.pod_uid, item.node)]

    def _end_inherited(self, decision_id: str, *, bound: bool) -> list[Instruction]:
        bind = self._inherited.pop(decision_id, None)
        return [] if bind is None else [Inherited(bind.pod_uid, bind.node, bound)]

    def _disinherit(self, pod_uids: Iterable[PodUid]) -> None:
        """What becomes of these pods is for decisions of ours to say."""
        if self._inherited:
            ours = set(pod_uids)
            self._inherited = {key: bind for key, bind in self._inherited.items() if bind.pod_uid not in ours}

    # --- gangs ---------------------------------------------------------------------------------
    def _prepared(self, work: _Work, now: float) -> list[Instruction]:
        gang = work.gang
        if gang is None or work.phase is not _Phase.SENT:
            return []
        if gang.bind is None:
            work.phase = _Phase.PREPARED
            return self._release_if_ready(gang, now)
        # Prepared again after a hand-over, when the verdict had been said.
        return [_verdict(work.binder, [work], bind=gang.bind)]

    def _release_if_ready(self, gang: _Gang, now: float) -> list[Instruction]:
        if not gang.members or not gang.ready:
            return []
        gang.bind = True
        for work in gang.members.values():
            work.phase, work.sent_at = _Phase.SENT, now
        return _verdicts(gang.members.values(), bind=True)

    def _abandon(self, gang: _Gang, now: float) -> list[Instruction]:
        gang.bind = False
        told = _verdicts((work for work in gang.members.values() if work.binder), bind=False)
        for work in list(gang.members.values()):
            if work.binder:
                work.phase, work.sent_at = _Phase.SENT, now
            elif work.phase is _Phase.WAITING:
                told += self._failed(work, ABANDONED, now=now)
        return told

    # --- one decision --------------------------------------------------------------------------
    def _add(self, decision: BindDecision, gang: _Gang | None, deadline: float) -> None:
        self._count += 1
        work = _Work(f"{self.epoch}-{self._count}", decision, deadline, gang)
        self._work[work.decision_id] = self._waiting[work.decision_id] = work
        if gang is not None:
            gang.members[work.decision_id] = work

    def _failed(
        self, work: _Work, reason: str, *, node_at_fault: bool = False, now: float
    ) -> list[Instruction]:
        work.failure = (reason, node_at_fault)
        gang = work.gang
        told: list[Instruction] = []
        if now <= work.acted_on_until:
            self._take_back(work)
            self._waiting.pop(work.decision_id, None)
            work.phase = _Phase.FAILED
        else:
            told += self._settle(work, bound=False, now=now)
        if gang is not None and gang.bind is None:
            told += self._abandon(gang, now)
        return told

    def _settle(self, work: _Work, *, bound: bool, now: float) -> list[Instruction]:
        self._take_back(work)
        self._waiting.pop(work.decision_id, None)
        del self._work[work.decision_id]
        reason, node_at_fault = ("", False) if bound else work.failure
        told: list[Instruction] = [Settled(work.decision_id, work.decision, bound, reason, node_at_fault)]
        if work.gang is not None:
            del work.gang.members[work.decision_id]
            if bound:
                told += self._release_if_ready(work.gang, now)
        return told

    def _wait(self, work: _Work) -> None:
        work.phase = _Phase.WAITING
        self._waiting[work.decision_id] = work

    def _give(self, work: _Work, binder: str, now: float) -> None:
        self._waiting.pop(work.decision_id, None)
        work.phase, work.binder, work.sent_at = _Phase.SENT, binder, now
        self._binders[binder].work[work.decision_id] = work
        node = work.decision.node
        holder, count = self._busy_nodes.get(node, (binder, 0))
        self._busy_nodes[node] = (holder if holder in self._binders else binder, count + 1)

    def _take_back(self, work: _Work) -> None:
        if not work.binder:
            return
        holder = self._binders.get(work.binder)
        if holder is not None:
            holder.work.pop(work.decision_id, None)
        work.binder = ""
        node = work.decision.node
        owner, count = self._busy_nodes[node]
        if count == 1:
            del self._busy_nodes[node]
        else:
            self._busy_nodes[node] = (owner, count - 1)

    # --- partition -----------------------------------------------------------------------------
    def _hand_out(self, now: float) -> list[Instruction]:
        if not self._binders or not self._waiting:
            return []
        batches: dict[tuple[str, float], list[_Work]] = {}
        for work in list(self._waiting.values()):
            # A decision that was handed over may be started late: whoever had it before may have begun.
            deadline = work.deadline if work.acted_on_until == 0.0 else max(work.deadline, now + 5.0)
            if now > deadline:
                continue
            binder = self._binder_of(work.decision.node)
            self._give(work, binder, now)
            batches.setdefault((binder, deadline), []).append(work)
        return [
            Send(binder, deadline, tuple(work.assignment for work in batch))
            for (binder, deadline), batch in batches.items()
        ]

    def _binder_of(self, node: str) -> str:
        holder, _ = self._busy_nodes.get(node, ("", 0))
        if holder in self._binders:
            return holder
        return max(self._binders, key=lambda binder: _affinity(binder, node, self._binders[binder].capacity))


def _affinity(binder: str, node: str, capacity: int) -> tuple[float, str]:
    """Weighted rendezvous hashing: a binder that comes or goes moves only its own share of the nodes."""
    digest = blake2b(f"{binder}\0{node}".encode(), digest_size=8).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)
    return -capacity / math.log(uniform), binder


def _is_overdue(work: _Work, binder: _Binder, now: float) -> bool:
    return work.phase is _Phase.SENT and now > work.sent_at + binder.patience


def _verdicts(members: Iterable[_Work], *, bind: bool) -> list[Instruction]:
    by_binder: dict[str, list[_Work]] = {}
    for work in members:
        by_binder.setdefault(work.binder, []).append(work)
    return [_verdict(binder, works, bind=bind) for binder, works in by_binder.items()]


def _verdict(binder: str, works: list[_Work], *, bind: bool) -> Verdict:
    ids = tuple(work.decision_id for work in works)
    return Verdict(binder, bind=ids) if bind else Verdict(binder, abandon=ids)
