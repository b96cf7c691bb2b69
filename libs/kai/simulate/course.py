"""A cluster that lives on from a state: the engine's cycles, and between them what becomes of pods.

Time is that of a clock of its own, which jumps from one event to the next. Pods that are bound run at once,
and end after their runtime, where one is known; pods that are evicted are gone after their grace period, and
come back as their owners make them. A cycle runs where something changed that somebody who waits may profit
from, at most one a period, and where time alone may change what is decided. The same state, configuration,
seed and plans have the same course.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias

from kai.collector import paused
from kai.engine import Engine, SchedulerConfig
from kai.engine.queueing.shares import Usage
from kai.model.decisions import CycleResult, Eviction, PodGroupOutcome
from kai.model.ids import PodGroupKey, PodUid
from kai.simulate import lives
from kai.simulate.changes import Change, make
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, Status

#: How long a job runs in all, given for how long it has run (seconds) and where to draw from; None: for ever.
Runtimes: TypeAlias = Callable[[Job, float, random.Random], float | None]
#: By status: it goes, whatever is decided.
_LEAVES: Final = tuple(status in (Status.RELEASING, Status.LINGERING) for status in Status)
#: More cycles in a row that always decide something are not run: it goes round in circles.
MOST_CYCLES: Final = 100_000


def for_ever(job: Job, ran: float, rng: random.Random) -> None:
    """Nothing that runs ends."""
    del job, ran, rng


class Happened(StrEnum):
    """What happened to a pod."""

    STARTED = "started"
    EVICTED = "evicted"
    #: It was deleted by somebody else than the scheduler.
    DELETED = "deleted"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a pod, called by the name of the first of those that came for it."""

    #: Unix seconds.
    at: float
    what: Happened
    #: ``namespace/name``.
    pod: str
    group: PodGroupKey
    node: str
    #: Of an eviction: the group that profits, the action, and what the pod's owner is told.
    by: str = ""
    action: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast things go, in seconds."""

    #: Between two cycles at least.
    period: float = 1.0
    #: From the eviction of a pod until it is gone.
    grace: float = 30.0


class Course:
    """What happens to a state from ``now`` (Unix seconds) on. Everything is done through the journal.

    Nothing has happened yet; plans are made by :meth:`plan`, and :meth:`run` lets it happen.
    """

    def __init__(
        self,
        journal: Journal,
        config: SchedulerConfig,
        *,
        now: float,
        runtimes: Runtimes = for_ever,
        seed: int = 0,
        usage: Usage | None = None,
        pace: Pace | None = None,
        tells: bool = True,
    ) -> None:
        """``tells``: whether it is found out why pods wait."""
        self.journal = journal
        self.state = journal.state
        self.now = now
        #: In the order in which it happened.
        self.events: list[Event] = []
        #: What cycles said last of each group, if they tell.
        self.outcomes: dict[PodGroupKey, PodGroupOutcome] = {}
        self.cycles = 0
        #: The last cycle, if there was one.
        self.last: CycleResult | None = None
        self._engine = Engine(config, tells=tells)
        self._usage = usage
        self._pace = pace or Pace()
        self._runtimes = runtimes
        self._rng = random.Random(seed)  # noqa: S311 (what is drawn is no secret)
        self._lasting: dict[PodGroupKey, float | None] = {}
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0
        self._due = now
        self._earliest = now
        self._promised: frozenset[tuple[PodUid, str]] = frozenset()
        #: Some gang may run with too few pods, which a cycle has not looked at.
        self._short = False
        with paused(lasting=True):
            self._take_up()

    def _take_up(self) -> None:
        """Go on with what is under way."""
        state, now = self.state, self.now
        state.settle(now)
        ends = ACTIVE_ALLOCATED if self._runtimes is not for_ever else (False,) * len(ACTIVE_ALLOCATED)
        under_way = [task for task in state.tasks.values() if _LEAVES[task.status] or ends[task.status]]
        for task in sorted(under_way, key=lambda task: task.key):
            if _LEAVES[task.status]:
                deleted = task.facts.deleted_at if task.facts is not None else 0.0
                self._plan_gone(task, max(deleted, now) if deleted else now + self._pace.grace)
            elif task.job is not None:
                self._plan_end(task, task.job, started=task.job.last_start or now)
        self._look_at_few()

    def _look_at_few(self) -> None:
        """Let the first cycle look at who waits or runs with too few pods, not at all that changed before."""
        state = self.state
        short = [job.key for job in state.touched_jobs.values() if job.active_used and not job.gang_satisfied]
        stale = [job.key for job in state.jobs.values() if job.stale_since]
        state.touch_only([*short, *stale])
        self._short = bool(stale)

    @property
    def more_at(self) -> float | None:
        """When something else is known to happen (Unix seconds); None: nothing is."""
        moment = self._next()
        return moment if math.isfinite(moment) else None

    # --- plans ---------------------------------------------------------------------------------
    def plan(self, at: float, changes: Iterable[Change]) -> None:
        """Let changes be made then (Unix seconds); what cannot be made then is raised by :meth:`run`."""
        listed = tuple(changes)

        def happen() -> None:
            before = len(self.journal.gone)
            make(self.journal, listed)
            for task in self.journal.gone[before:]:
                # What has ended holds nothing, and what leaves was deleted before.
                if task.facts is not None and task.facts.node_name and ACTIVE_ALLOCATED[task.status]:
                    self._tell(Happened.DELETED, task, task.facts.node_name)
            self._wake()

        self._plan(at, happen)

    def _plan(self, at: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._plans, (at, self._planned, happen))
        self._planned += 1

    def _plan_gone(self, task: Task, at: float) -> None:
        self._plan(at, partial(self._gone, task))

    def _plan_end(self, task: Task, job: Job, *, started: float) -> None:
        ran = max(self.now - started, 0.0)
        if job.key not in self._lasting:
            self._lasting[job.key] = self._runtimes(job, ran, self._rng)
        lasting = self._lasting[job.key]
        if lasting is not None:
            self._plan(max(started + lasting, self.now), partial(self._ended, task))

    # --- the clock -----------------------------------------------------------------------------
    def run(self, until: float) -> None:
        """Let everything happen until then (Unix seconds), that included.

        Raises:
            ChangeRefused: a plan cannot be carried out.
        """
        for _ in self.moments(until):
            pass
        self.now = max(self.now, until) if math.isfinite(until) else self.now

    def moments(self, until: float) -> Iterator[float]:
        """The same, one moment (Unix seconds) after the other, for who knows before the end what he asks.

        Raises:
            ChangeRefused: a plan cannot be carried out.
        """
        while (moment := self._next()) <= until and moment < math.inf and self.cycles < MOST_CYCLES:
            self.now = max(self.now, moment)
            while self._plans and self._plans[0][0] <= self.now:
                heapq.heappop(self._plans)[2]()
            if self._due <= self.now:
                self._cycle()
            yield self.now

    def _next(self) -> float:
        return min(self._plans[0][0] if self._plans else math.inf, self._due)

    def _wake(self) -> None:
        """Something changed: let a cycle run, as soon as there may be one."""
        self._due = min(self._due, max(self.now, self._earliest))

    def _cycle(self) -> None:
        state = self.state
        result = self.last = self._engine.run(state, self.now, usage=self._usage)
        self.journal.decided(result)
        self.cycles += 1
        self._earliest = self.now + self._pace.period
        for outcome in result.outcomes:
            self.outcomes[outcome.pod_group] = outcome
        for bind in result.binds:
            self._bound(state.tasks[bind.pod.uid], bind.node)
        for eviction in result.evictions:
            self._evicted(eviction)
        self._due = self._due_after(result)

    def _due_after(self, result: CycleResult) -> float:
        """When a cycle may decide something else, if nothing happens."""
        promised = frozenset((each.pod.uid, each.node) for each in result.nominations)
        same, self._promised = promised == self._promised, promised
        busy = result.binds or result.evictions or not same
        if busy and (self.state.pending_jobs or promised or self._short):
            return self._earliest
        self._short = False  # who runs with too few pods is in what the cycle said of time
        # Who is promised something waits for those who leave, and that is an event.
        return max(result.alarm, self._earliest)

    # --- pods ----------------------------------------------------------------------------------
    def _bound(self, task: Task, node: str) -> None:
        job = task.job
        assert job is not None
        self.state.bind_done(task.uid)
        self._tell(Happened.STARTED, task, node)
        self._plan_end(task, job, started=self.now)

    def _evicted(self, eviction: Eviction) -> None:
        task = self.state.tasks[eviction.pod.uid]
        node = task.node.name if task.node is not None else ""
        self._tell(
            Happened.EVICTED, task, node, by=eviction.evictor, action=eviction.action, why=eviction.message
        )
        self._plan_gone(task, self.now + self._pace.grace)

    def _gone(self, task: Task) -> None:
        if self.state.tasks.get(task.uid) is task:
            self._short = lives.replace(self.journal, task, now=self.now) is None or self._short
            self._wake()

    def _ended(self, task: Task) -> None:
        job = task.job
        known = self.state.tasks.get(task.uid) is task
        if not known or job is None or not ACTIVE_ALLOCATED[task.status]:
            return  # it was evicted, or somebody deleted it
        self._tell(Happened.ENDED, task, task.node.name if task.node is not None else "")
        lives.finish(self.journal, task)
        if not (job.pending or job.gated or job.active_used):
            self._complete(job)
        if self.state.pending_jobs:
            self._wake()

    def _complete(self, job: Job) -> None:
        """All of it is done: whoever made it takes it away."""
        for task in list(self.state.members.get(job.key, {}).values()):
            self.journal.end(task)
        self.journal.drop(Kind.POD_GROUP, job.key)
        self._lasting.pop(job.key, None)
        self.outcomes.pop(job.key, None)

    def _tell(
        self, what: Happened, task: Task, node: str, *, by: str = "", action: str = "", why: str = ""
    ) -> None:
        self.events.append(
            Event(
                at=self.now,
                what=what,
                pod=lives.origin(task.key),
                group=task.facts.group_key if task.facts is not None else PodGroupKey(""),
                node=node,
                by=by,
                action=action,
                why=why,
            )
        )
