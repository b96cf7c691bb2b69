"""An answer as data, in the form that ``kai explain -o json`` prints; ``docs/explain.md`` describes it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import msgspec

#: What a reason counts: numbers with their units in the names, names of objects, and lists of these.
Amounts: TypeAlias = dict[str, Any]


class Verdict(StrEnum):
    """What has to happen before the rest of some work runs."""

    RUNS = "RUNS"
    #: It will start without anybody doing anything.
    WAIT = "WAIT"
    #: Somebody must change something that is wrong with it.
    CHANGE = "CHANGE"
    #: It needs more capacity, or somebody who administers the cluster or its queues.
    ESCALATE = "ESCALATE"
    #: No node of this cluster ever can take it as it is.
    NEVER = "NEVER"


class StageName(StrEnum):
    """What work goes through before it runs, in order."""

    KNOWN = "known"
    GROUPED = "grouped"
    ADMITTED = "admitted to its queue"
    COMPLETE = "complete"
    WITHIN_LIMITS = "within limits"
    NODES_ALLOWED = "nodes allowed"
    ROOM = "room"
    VICTIMS_PERMITTED = "victims permitted"
    BOUND = "bound"


class StageState(StrEnum):
    """How far work got with a stage."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not reached"


class Code(StrEnum):
    """The one reason of an answer, for programs. Codes are never renamed; new ones may come."""

    RUNNING = "Running"
    # known
    SCHEDULER_SILENT = "SchedulerSilent"
    NOT_TAKEN_IN = "NotTakenIn"
    ANOTHER_SCHEDULER = "AnotherScheduler"
    MISSPELT_SCHEDULER = "MisspeltScheduler"
    ANOTHER_SHARD = "AnotherShard"
    SUSPENDED = "Suspended"
    NO_PODS = "NoPods"
    ENDED = "Ended"
    # grouped
    NOT_GROUPED = "NotGrouped"
    GROUPING_FAILED = "GroupingFailed"
    POD_GROUP_MISSING = "PodGroupMissing"
    INVALID_POD_GROUP = "InvalidPodGroup"
    UNKNOWN_SUB_GROUP = "UnknownSubGroup"
    # admitted to its queue
    QUEUE_MISSING = "QueueMissing"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_CLOSED = "QueueClosed"
    PRIORITY_DENIED = "PriorityDenied"
    GIVEN_UP = "GivenUp"
    # complete
    PODS_MISSING = "PodsMissing"
    GATED = "Gated"
    # within limits
    OVER_LIMIT = "OverLimit"
    OVER_QUOTA = "NonPreemptibleOverQuota"
    # nodes allowed
    NO_NODES = "NoNodes"
    TOO_LARGE = "TooLarge"
    NOT_OFFERED = "NotOffered"
    NODES_UNAVAILABLE = "NodesUnavailable"
    TAINTED = "Tainted"
    NODE_SELECTOR = "NodeSelector"
    NODE_AFFINITY = "NodeAffinity"
    NODES_REFUSE = "NodesRefuse"
    PREREQUISITE = "PrerequisiteMissing"
    TOPOLOGY_MISSING = "TopologyMissing"
    # room
    NOT_ENOUGH_FREE = "NotEnoughFree"
    FRAGMENTED = "Fragmented"
    TOPOLOGY_TOO_SMALL = "TopologyDomainTooSmall"
    NEIGHBOURS = "Neighbours"
    NODES_SET_ASIDE = "NodesSetAside"
    OTHERS_FIRST = "OthersFirst"
    # victims permitted
    PROTECTED = "Protected"
    PREEMPTION_DELAY = "PreemptionDelay"
    # bound
    NEXT_CYCLE = "NextCycle"
    BEING_RELEASED = "BeingReleased"
    BIND_FAILED = "BindFailed"


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what an answer is made of: camelCase in JSON."""


class Stage(_Part, frozen=True, kw_only=True):
    """One stage; ``text`` is empty where it was not reached."""

    stage: StageName
    state: StageState
    text: str = ""


class Reason(_Part, frozen=True, kw_only=True):
    """The one reason: why the first stage that is not passed is not."""

    code: Code
    text: str
    amounts: Amounts = {}


class ToldChange(_Part, frozen=True, kw_only=True):
    """Something that lets the work start: it was made in a copy of the cluster, and the engine placed it."""

    text: str
    #: For a shell; None where there is no single command for it.
    command: str | None
    proven: Literal[True] = True


class Position(_Part, frozen=True, kw_only=True):
    """Where work stands in its queue: so many of those that wait there are served before it."""

    queue: str
    ahead: int
    of: int


class PastEviction(_Part, frozen=True, kw_only=True):
    """Pods that it lost: when (RFC 3339), for which pod group, by which action, and why."""

    at: str
    by: str
    action: str
    why: str


class Held(_Part, frozen=True, kw_only=True):
    """Of so many forecasts that are decided, how many held."""

    held: int
    of: int


class ForecastBasis(_Part, frozen=True, kw_only=True):
    """What a forecast rests on."""

    #: So many times the cluster was let live on.
    courses: int
    #: Runs of workloads that were learned from.
    runs: int
    #: How many workloads got their runtimes from others of the same ``pattern``, ``owner``, ``queue``, from
    #: ``all``, or from ``none``.
    workloads: dict[str, int]
    #: By ``p50`` and ``p90``, how those held that insight knows of.
    coverage: dict[str, Held] = {}


class Forecast(_Part, frozen=True, kw_only=True):
    """Seconds until it starts in half of the courses, and in nine of ten; None: not within the horizon."""

    p50: float | None
    p90: float | None
    #: Seconds.
    horizon: float
    #: Why a number is None.
    reason: str | None = None
    basis: ForecastBasis


class Answer(_Part, frozen=True, kw_only=True):
    """Why something is where it is."""

    kind: str
    namespace: str
    name: str
    #: Of those that its pods are in the one that is told of; empty where there is none.
    pod_group: str
    verdict: Verdict
    reason: Reason
    stages: tuple[Stage, ...]
    changes: tuple[ToldChange, ...] = ()
    #: None where it does not start by itself, or nothing of the past is known.
    forecast: Forecast | None = None
    position: Position | None = None
    evictions: tuple[PastEviction, ...] = ()


def document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(answer)
    return found


_ORDER: Final = tuple(StageName)


class Ladder:
    """Stages as they are passed, one after the other."""

    def __init__(self) -> None:
        self._passed: list[Stage] = []

    def passes(self, text: str) -> None:
        """The next stage is passed."""
        stage = Stage(stage=_ORDER[len(self._passed)], state=StageState.PASSED, text=text)
        self._passed.append(stage)

    @property
    def next(self) -> StageName:
        """The stage that comes next."""
        return _ORDER[len(self._passed)]

    def all_passed(self) -> tuple[Stage, ...]:
        """All stages, of which none is left."""
        while len(self._passed) < len(_ORDER):
            self.passes("")
        return tuple(self._passed)

    def failed(self, reason: Reason) -> tuple[Stage, ...]:
        """All stages, of which the next one is not passed."""
        at = len(self._passed)
        failed = Stage(stage=_ORDER[at], state=StageState.FAILED, text=reason.text)
        rest = (Stage(stage=name, state=StageState.NOT_REACHED) for name in _ORDER[at + 1 :])
        return (*self._passed, failed, *rest)
