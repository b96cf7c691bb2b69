"""The state of the cluster and the engine, behind one worker thread.

Everything that touches them runs in that thread, one after the other, so that the event loop stays
free while a cycle computes and nobody needs a lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import structlog

from kai.config import SchedulerConfig
from kai.engine.containment.blame import blamed
from kai.engine.explain.job_order import JobOrder
from kai.engine.queueing.turns import Turns
from kai.model.decisions import CycleResult, QueuedGroup, ResourceVector
from kai.model.faults import Fault, OutOfBounds
from kai.snapshot.changes import Changes, Rejection, take_in
from kai.snapshot.state import ClusterState

T = TypeVar("T")
#: Past use by queue, as fractions of the cluster: CPU, memory, GPU.
Usage = Mapping[str, ResourceVector]

#: A cycle that takes longer is worth a word.
LONG_CYCLE_SECONDS: Final = 3.0

_log = structlog.get_logger(__name__)


class Decider(Protocol):
    """The engine, as far as the service knows it. Times are Unix seconds."""

    config: SchedulerConfig
    #: What the last cycle went by.
    last_usage: Usage
    #: Of the searches that give way.
    turns: Turns

    @property
    def sets_aside(self) -> bool:
        """Whether cycles go on without something that one of them failed over."""

    def run(
        self,
        state: ClusterState,
        now: float,
        *,
        usage: Usage | None = None,
        hurry: Callable[[], bool] | None = None,
    ) -> CycleResult:
        """Decide one cycle, and fold the decisions into ``state``; searches give way to a ``hurry``."""

    def job_order(self, state: ClusterState) -> JobOrder | None:
        """In which order jobs are looked at; None before the first cycle. Leaves the state as it was."""

    def service_order(self, state: ClusterState) -> list[QueuedGroup] | None:
        """The same, with what puts each job before the next of its queue."""


class Core:
    """State and engine. Times are Unix seconds."""

    def __init__(
        self, state: ClusterState, engine: Decider, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.engine = engine
        self._clock = clock
        #: When the cycle began that runs now, by ``clock``.
        self._cycle_began: float | None = None
        #: Cycles that were begun, as the worker thread counts them.
        self.cycles = 0
        #: Objects that could not be taken in.
        self.rejected = 0
        #: Pods that a relist showed to be gone or new, though no event had told so.
        self.corrected = 0
        #: Objects that scheduling goes on without, as of the last batch or cycle.
        self.faults: tuple[Fault, ...] = ()
        self._state = state
        #: Questions wait for each other here, so that a cycle waits for one of them at most.
        self._questions = asyncio.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cycle")
        self._closing = False

    def close(self) -> None:
        """End the worker thread after what it does now. Searches stop: nobody carries out what they find."""
        self._closing = True
        self._worker.shutdown(wait=True, cancel_futures=True)

    async def fold(self, batch: Changes) -> None:
        """Bring the state up to date, and decide nothing."""
        await self.ask(lambda state: self._fold(state, batch))

    async def settle(self, *, now: float) -> None:
        """Do what a cycle does beside deciding, where none will come soon.

        Before it nobody was told of any pod group, so those that are gone are nobody's to forget.
        """
        await self.ask(lambda state: _settle(state, now))

    async def cycle(
        self,
        batch: Changes,
        *,
        now: float,
        usage: Usage | None = None,
        hurry: Callable[[], bool] | None = None,
    ) -> CycleResult:
        """Bring the state up to date, and decide; ``hurry`` is asked in the worker thread."""

        def somebody_waits() -> bool:
            return self._closing or (hurry is not None and hurry())

        def work(state: ClusterState) -> CycleResult:
            self._cycle_began = self._clock()
            self.cycles += 1
            try:
                self._fold(state, batch)
                return self.engine.run(state, now, usage=usage, hurry=somebody_waits)
            finally:
                self._cycle_began = None

        result = await self.ask(work)
        self.faults = result.faults
        for fault, trace in result.setbacks:
            _log.error("set aside", kind=fault.kind, object=fault.key, reason=fault.message, traceback=trace)
        return result

    def long_cycle(self) -> str | None:
        """That a cycle takes long which has not ended yet, for whoever looks why nothing is decided."""
        began = self._cycle_began
        if began is None or (seconds := self._clock() - began) <= LONG_CYCLE_SECONDS:
            return None
        return f"a cycle has run for {seconds:.0f} s; nothing is decided meanwhile"

    async def ask(self, question: Callable[[ClusterState], T]) -> T:
        """Run something over the state, in the worker thread; it must leave the state as it was."""
        working = asyncio.get_running_loop().run_in_executor(self._worker, question, self._state)
        # Who asks may be cancelled; a batch that was taken must get into the state all the same.
        return await asyncio.shield(working)

    async def question(self, question: Callable[[ClusterState], T]) -> T:
        """The same for somebody who is not in a hurry: one after the other, between two cycles."""
        async with self._questions:
            return await self.ask(question)

    def _fold(self, state: ClusterState, batch: Changes) -> None:
        taken = take_in(state, batch)
        self.rejected += len(taken.rejections)
        for each in taken.rejections:
            _tell(each)
        for failure in taken.failures:
            _log.error("result of a decision cannot be taken in", exc_info=failure)
        if taken.surplus or taken.missing:
            self.corrected += taken.surplus + taken.missing
            _log.error("state differed from a relist", surplus=taken.surplus, missing=taken.missing)
        self.faults = tuple(state.faults.values())


def _settle(state: ClusterState, now: float) -> None:
    state.take_gone()
    try:
        with blamed(state):
            state.settle(now)
    except Exception:
        state.mend()
        raise


def _tell(rejection: Rejection) -> None:
    """The log hears of it once for each new reason; its owner is told by the fault."""
    kind, key, error, news = rejection.kind, rejection.key, rejection.error, rejection.news
    if error is None:
        return
    if isinstance(error, OutOfBounds):
        if news is not None:
            _log.warning("object refused", kind=news.kind, object=key, field=error.field, bound=error.bound)
    elif news is not None:
        _log.error("object cannot be taken in", kind=news.kind, object=key, exc_info=error)
    elif rejection.gone:
        _log.error("object that is gone cannot be taken out", kind=kind.value, object=key, exc_info=error)
