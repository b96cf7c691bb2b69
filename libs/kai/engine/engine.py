"""The scheduling engine: one cycle over the cluster state."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from kai.engine import opposites, outcomes
from kai.engine.actions import ACTIONS
from kai.engine.config import SchedulerConfig
from kai.engine.explain import detail, job_order, questions
from kai.engine.explain.job_order import JobOrder
from kai.engine.explain.questions import PodAnswer, PodGroupAnswer
from kai.engine.session import Session
from kai.model.decisions import CycleResult
from kai.snapshot.collector import paused
from kai.snapshot.state import ClusterState

Usage = Mapping[str, tuple[float, float, float]]


class Engine:
    """Decides, and does nothing; decisions are folded into the state, and the next cycle builds on them."""

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.config = config or SchedulerConfig()
        self._last_cycle: float | None = None
        self._validate = os.environ.get("KAI_VALIDATE") == "1"

    def open(self, state: ClusterState, now: float, *, usage: Usage | None = None) -> Session:
        """Begin a cycle; :meth:`Session.close` ends it."""
        return Session(state, self.config, now, dict(usage or {}))

    def explain_pod_group(self, state: ClusterState, key: str, now: float) -> PodGroupAnswer | None:
        """Why a pod group waits, and what would let it run; the state stays as it is."""
        return questions.explain_pod_group(self, state, key, now)

    def explain_pod(self, state: ClusterState, key: str, now: float) -> PodAnswer | None:
        """What each node says to a pod; the state stays as it is."""
        return questions.explain_pod(self, state, key, now)

    def job_order(self, state: ClusterState) -> JobOrder | None:
        """The order in which jobs that wait are looked at, as of the last cycle; None before the first."""
        if self._last_cycle is None:
            return None
        return job_order.job_order(self.open(state, self._last_cycle))

    def run(self, state: ClusterState, now: float, *, usage: Usage | None = None) -> CycleResult:
        """Run one cycle.

        Args:
            state: the cluster; decisions are entered as assumed binds and evictions.
            now: unix seconds.
            usage: past use of queues as a fraction of the cluster (CPU, memory, GPU); none means no history.
        """
        with paused():
            return self._cycle(state, now, usage)

    def _cycle(self, state: ClusterState, now: float, usage: Usage | None) -> CycleResult:
        self._last_cycle = now
        timings: dict[str, float] = {}
        started = time.perf_counter()
        session = self.open(state, now, usage=usage)
        timings["open"] = time.perf_counter() - started
        for action in self.config.actions:
            started = time.perf_counter()
            ACTIONS[action](session)
            timings[action] = time.perf_counter() - started
            if self._validate:
                state.check()
        started = time.perf_counter()
        opposites.cancel(session)
        if self.config.params.detailed_fit_errors:
            detail.detail_pods(session)
        found = outcomes.collect(session)
        shares = outcomes.shares(session)
        session.close()
        timings["close"] = time.perf_counter() - started
        decided = session.decisions
        next_due = 0.0 if decided.binds or decided.evictions or decided.nominations else session.due_time()
        return CycleResult(
            binds=tuple(decided.binds),
            evictions=tuple(decided.evictions),
            nominations=tuple(decided.nominations),
            outcomes=found,
            shares=shares,
            faults=tuple(state.faults.values()),
            timings=timings,
            plugin_timings=session.plugin_timings,
            searches=decided.searches,
            counters=decided.counters,
            next_due=next_due,
        )
