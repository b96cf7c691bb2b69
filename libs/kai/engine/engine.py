"""The scheduling engine: one cycle over the cluster state."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kai.collector import paused
from kai.config import SchedulerConfig
from kai.config.arguments import ConfigError
from kai.engine.actions import ACTIONS, cancellation
from kai.engine.containment.cycles import Containment
from kai.engine.containment.transaction import Transaction, undone_if_failed
from kai.engine.explain import detail, free_devices, job_order, outcomes
from kai.engine.explain.job_order import JobOrder
from kai.engine.framework.session import Session
from kai.engine.plugins import OPENERS
from kai.engine.queueing.shares import Usage
from kai.engine.queueing.turns import Turns
from kai.model.decisions import Cut, CycleResult, PodGroupOutcome, QueuedGroup
from kai.model.ids import PodGroupKey
from kai.snapshot.state import ClusterState

T = TypeVar("T")


class Engine:
    """Decides, and does nothing; decisions are folded into the state, and the next cycle builds on them."""

    def __init__(
        self, config: SchedulerConfig | None = None, *, contained: bool = False, tells: bool = True
    ) -> None:
        """A cycle that fails over one object runs again without it, if ``contained``; else it raises.

        ``tells``: whether cycles find out what there is to tell pod groups; without, they have no outcomes.
        """
        self.config = config or SchedulerConfig()
        self.tells = tells
        self._containment = Containment() if contained else None
        self.last_cycle: float | None = None
        #: Past use of queues that the last cycle went by; what is asked between cycles goes by it, too.
        self.last_usage: Usage = {}
        self.validate = asked_to_validate()
        #: Of the searches that give way.
        self.turns = Turns()

    def open(
        self,
        state: ClusterState,
        now: float,
        *,
        turns: Turns | None = None,
        cuts: Sequence[Cut] | None = None,
    ) -> Session:
        """Begin a cycle, or a question in between.

        Settles the state as of ``now`` (Unix seconds) and divides the cluster among queues, by the past use
        that the last cycle went by. Whoever opens a session calls :meth:`Session.close`, and there is one at
        a time for a state.
        """
        return Session(
            state,
            self.config,
            now,
            usage=dict(self.last_usage),
            plugins=OPENERS,
            turns=turns,
            cuts=cuts,
            tells=self.tells,
        )

    @property
    def sets_aside(self) -> bool:
        """Whether cycles go on without something that one of them failed over."""
        return self._containment is not None and self._containment.sets_aside

    def job_order(self, state: ClusterState) -> JobOrder | None:
        """The order in which jobs that wait are looked at, as of the last cycle; None before the first.

        The state ends as it began, also where this raises. Nobody asks during a cycle.
        """
        return self._asked(state, job_order.job_order)

    def service_order(self, state: ClusterState) -> list[QueuedGroup] | None:
        """The same, with what puts each job before the next of its queue."""
        return self._asked(state, job_order.service_order)

    def _asked(self, state: ClusterState, question: Callable[[Session], T]) -> T | None:
        if self.last_cycle is None:
            return None
        with undone_if_failed(state):
            return question(self.open(state, self.last_cycle))

    def run(
        self,
        state: ClusterState,
        now: float,
        *,
        usage: Usage | None = None,
        hurry: Callable[[], bool] | None = None,
        cuts: Sequence[Cut] | None = None,
    ) -> CycleResult:
        """Run one cycle: settle the state, run the actions in order, and say what was decided and found.

        After it every decision is in the state, as if it were carried out already; whoever carries it out
        reports how it ended (``ClusterState.bind_done``, ``bind_failed``, ``evict_failed``). The same state,
        configuration, ``now`` and ``usage`` give the same result, where time ends the same searches.

        Args:
            state: the cluster; decisions are entered as assumed binds and evictions.
            now: Unix seconds.
            usage: past use of queues as a fraction of the cluster (CPU, memory, GPU); none means no history.
            hurry: whether somebody waits for the end of the cycle; asked during searches, which then give way
                (:mod:`kai.engine.queueing.turns`). None: they never do.
            cuts: those of the result of another run, which this one repeats; no clock is asked then, nor
                whether somebody waits.

        Raises:
            Exception: an action or plugin failed. An engine that is ``contained`` first takes the cycle back
                and runs it again without what it failed over, and raises only where that does not help.
        """
        with paused():
            if self._containment is None:
                return _Cycle(self, state, now, usage, hurry, cuts).run()
            result = self._containment.run(
                state, now, begin=lambda: _Cycle(self, state, now, usage, hurry, cuts)
            )
        return replace(
            result,
            faults=(*state.faults.values(), *state.overruled.values()),
            setbacks=tuple(self._containment.setbacks),
            next_due=min(result.next_due, self._containment.next_due) if result.next_due else 0.0,
            alarm=min(result.alarm, self._containment.next_due),
        )


class _Cycle:
    """One cycle, which may be run again after it was taken back."""

    def __init__(
        self,
        engine: Engine,
        state: ClusterState,
        now: float,
        usage: Usage | None,
        hurry: Callable[[], bool] | None,
        cuts: Sequence[Cut] | None,
    ) -> None:
        self._engine = engine
        self._cuts = cuts
        self._hurry = hurry
        self._state = state
        self._now = now
        self._usage = usage
        self._transaction = Transaction(state)
        #: What is to be told of pod groups.
        self._found: tuple[PodGroupOutcome, ...] = ()
        #: Pod groups (uids, by key) that are to be forgotten.
        self._gone: dict[PodGroupKey, str] = {}

    def revoke(self) -> None:
        outcomes.unpublish(self._state, self._found)
        self._found = ()
        self._transaction.revoke()
        self._state.untold(self._gone)
        self._gone = {}

    def _somebody_waits(self, session: Session) -> Callable[[], bool] | None:
        """Pods that were given a place in this cycle wait for its end, too."""
        hurry = self._hurry
        return None if hurry is None else lambda: bool(session.decisions.binds) or hurry()

    def run(self) -> CycleResult:
        state, config = self._state, self._engine.config
        # Before the session opens, which goes by them.
        self._engine.last_cycle, self._engine.last_usage = self._now, self._usage or {}
        timings: dict[str, float] = {}
        started = time.perf_counter()
        turns = self._engine.turns
        turns.forget(state.gone_jobs)
        session = self._engine.open(state, self._now, turns=turns, cuts=self._cuts)
        self._transaction.decisions = session.decisions
        turns.begin(self._somebody_waits(session))
        timings["open"] = time.perf_counter() - started
        for action in config.actions:
            started = time.perf_counter()
            ACTIONS[action](session)
            timings[action] = time.perf_counter() - started
            if self._engine.validate:
                state.check()
        turns.end()
        started = time.perf_counter()
        cancellation.cancel(session)
        self._gone = state.take_gone()
        if session.tells:
            if config.params.detailed_fit_errors:
                detail.detail_pods(session)
            self._found = outcomes.collect(session, gone=self._gone)
        else:
            state.touch_only(())
        # Before what waits is taken back: until then queues are charged for it.
        telling = time.perf_counter()
        shares = outcomes.shares(session)
        told = time.perf_counter() - telling
        session.close()
        timings["close"] = time.perf_counter() - started
        decided = session.decisions
        alarm = session.due_time()
        next_due = 0.0 if decided.binds or decided.evictions or decided.nominations else alarm
        return CycleResult(
            binds=tuple(decided.binds),
            evictions=tuple(decided.evictions),
            nominations=tuple(decided.nominations),
            outcomes=self._found,
            forgotten=tuple(self._gone),
            shares=shares,
            faults=(*state.faults.values(), *state.overruled.values()),
            timings=timings,
            plugin_timings=session.plugin_timings,
            plugin_closings={"proportion": told} if "proportion" in session.plugin_timings else {},
            capacity=tuple(session.division.total.tolist()),
            nodes=len(session.nodes.nodes),
            nodes_by_free=free_devices.nodes_by_free(state),
            searches=decided.searches,
            counters=decided.counters,
            next_due=next_due,
            alarm=alarm,
            gave_way=turns.gave_way,
            cuts=tuple(decided.cuts),
        )


def asked_to_validate() -> bool:
    """Whether every action is followed by a check of the whole state, by ``KAI_VALIDATE``.

    Raises:
        ConfigError: it is something else than 0 or 1.
    """
    setting = os.environ.get("KAI_VALIDATE") or "0"
    if setting not in ("0", "1"):
        raise ConfigError(f"KAI_VALIDATE is {setting!r}; it must be 0 or 1")
    return setting == "1"
