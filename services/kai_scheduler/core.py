"""The state of the cluster and the engine, behind one worker thread.

Everything that touches them runs in that thread, one after the other, so that the event loop stays
free while a cycle computes and nobody needs a lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

import structlog

from kai.engine.config import SchedulerConfig
from kai.engine.explain.job_order import JobOrder
from kai.kube.reflector import Unreadable
from kai.model.decisions import CycleResult, QueuedGroup, ResourceVector
from kai.model.faults import Fault, OutOfBounds
from kai.snapshot.collector import paused
from kai.snapshot.state import ClusterState, Kind
from kai_scheduler.changes import Changes

T = TypeVar("T")
#: Past use by queue, as fractions of the cluster: CPU, memory, GPU.
Usage = Mapping[str, ResourceVector]

#: A cycle that takes longer is worth a word.
LONG_CYCLE_SECONDS: Final = 3.0
#: A batch of more objects than that is a cluster read anew, which is there to stay.
_WHOLE_CLUSTER: Final = 10_000

_log = structlog.get_logger(__name__)


class Decider(Protocol):
    """The engine, as far as the service knows it. Times are Unix seconds."""

    config: SchedulerConfig
    #: What the last cycle went by.
    last_usage: Usage

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

    def close(self) -> None:
        """End the worker thread after what it does now."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    async def fold(self, batch: Changes) -> None:
        """Bring the state up to date, and decide nothing."""
        await self.ask(lambda state: self._fold(state, batch))

    async def cycle(
        self,
        batch: Changes,
        *,
        now: float,
        usage: Usage | None = None,
        hurry: Callable[[], bool] | None = None,
    ) -> CycleResult:
        """Bring the state up to date, and decide; ``hurry`` is asked in the worker thread."""

        def work(state: ClusterState) -> CycleResult:
            self._cycle_began = self._clock()
            try:
                self._fold(state, batch)
                return self.engine.run(state, now, usage=usage, hurry=hurry)
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
        count = sum(map(len, batch.objects.values()))
        with paused(lasting=count > _WHOLE_CLUSTER):
            for kind, objects in batch.ordered():
                for key, obj in objects.items():
                    self._apply(state, kind, key, obj)
        for result in batch.results:
            self._note(state, result)
        if batch.pods_after_relist is not None:
            self._compare(state, batch.pods_after_relist)
        self.faults = tuple(state.faults.values())

    def _note(self, state: ClusterState, result: Callable[[ClusterState], None]) -> None:
        """What became of a decision; it must not cost the others of the batch theirs."""
        try:
            result(state)
        except Exception:  # noqa: BLE001 (a defect of ours about one pod)
            _log.exception("result of a decision cannot be taken in")
        if state.unsound:
            state.mend()

    def _apply(self, state: ClusterState, kind: Kind, key: str, obj: Any) -> None:
        try:
            if obj is None:
                state.remove(kind, key)
            elif isinstance(obj, Unreadable):
                self.rejected += 1
                state.unread(kind, key, uid=obj.uid, reason=obj.reason)
            else:
                state.apply(kind, obj)
        except Exception as error:  # noqa: BLE001 (one object must not stop everybody's scheduling)
            self._refuse(state, kind, key, obj, error)

    def _refuse(self, state: ClusterState, kind: Kind, key: str, obj: Any, error: Exception) -> None:
        """Go on without an object; its owner is told, and the log once for each new reason."""
        self.rejected += 1
        if obj is None:
            _log.error("object that is gone cannot be taken out", kind=kind.value, object=key, exc_info=error)
            return
        known = state.faults.get((kind, key))
        fault = state.refuse(kind, key, obj=obj, error=error)
        if fault == known:
            return
        if isinstance(error, OutOfBounds):
            _log.warning("object refused", kind=fault.kind, object=key, field=error.field, bound=error.bound)
        else:
            _log.error("object cannot be taken in", kind=fault.kind, object=key, exc_info=error)

    def _compare(self, state: ClusterState, uids: frozenset[str]) -> None:
        """After a relist the state must hold the very pods that it told; what differs is repaired."""
        surplus = [task for uid, task in state.tasks.items() if uid not in uids]
        for task in surplus:
            self._apply(state, Kind.POD, f"{task.namespace}/{task.name}", None)
        missing = uids.difference(state.tasks, (fault.uid for fault in state.faults.values()))
        if surplus or missing:
            self.corrected += len(surplus) + len(missing)
            _log.error("state differed from a relist", surplus=len(surplus), missing=len(missing))
