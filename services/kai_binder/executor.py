"""Executing decisions, many at a time, and stopping when we must.

Decisions are worked for one leader, and only while we hear it: when its stream breaks, or a later
leader is elected, everything that has not reached the bind call is dropped *as it is*. It is not
undone, since another binder may already be at the same decision; what is left over is harmless (claims
run out, ConfigMaps belong to the pod, labels are written anew). A bind call that has begun is carried
to its end, and told to the next leader.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from kai.kube.errors import Unauthorized
from kai.kube.ranks import Rank
from kai.kube.workqueue_metrics import ControllerMetrics, ControllerSeries, WorkResult
from kai.model.decisions import BindDecision
from kai.wire.decisions import BIND_SECONDS, Assignment, DecisionBatch, InFlight, Result, ResultStatus
from kai_binder.binding import PodBinder
from kai_binder.errors import BindFailed, GivenUp, Refused, Rejected
from kai_binder.work import Work

#: How much longer than a bind may take a prepared pod waits for its gang, of which others are prepared later.
VERDICT_MARGIN: Final = 100.0
#: So long after a decision came its node may be closed, or its device lost: if it had to be prepared, or to
#: wait for its gang, that is looked at once more.
LONG_SECONDS: Final = 5.0
#: Preparing is mostly waiting (for a device, a volume): it is bounded apart from binding, and higher.
PREPARING_AT_MOST: Final = 128
#: So many bound pods are marked at once. The others wait in line as what was decided, which takes a tenth of
#: the memory of a write that waits.
MARKING_AT_MOST: Final = 8
#: With so many in line marks no longer leave the API server to those who wait, or it would grow for ever.
HURRIED: Final = 16_384
#: How long to wait before doing again what the API server does not allow: one that has just started has not
#: read its roles yet, and the pod's user need not hear of that.
REFUSED_SECONDS: Final = (0.5, 1.0, 2.0, 4.0)

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Fence:
    """The epoch of the Lease, as it was told last. Nothing is begun for a smaller one.

    It goes back only where the Lease does, as after the API server's store was restored from a backup: then
    whoever leads has a smaller epoch than who led before, and would be refused for ever.
    """

    def __init__(self) -> None:
        self.epoch = 0

    def see(self, epoch: int) -> None:
        """Somebody leads with this epoch, as the Lease says now; no other word counts."""
        if epoch < self.epoch:
            _log.warning("the lease has gone back", epoch=epoch, before=self.epoch)
        self.epoch = epoch

    def admits(self, epoch: int) -> bool:
        """Whether a decision of this epoch may go on."""
        return epoch >= self.epoch


@dataclass(slots=True, eq=False)
class _Execution:
    assignment: Assignment
    epoch: int
    #: By our own clock.
    deadline: float
    #: True: bind; False: undo.
    verdict: asyncio.Future[bool]
    task: asyncio.Task[None] | None = None
    #: The bind call has begun: its end must be found out.
    binding: bool = False
    #: The leader that gave it is gone: nothing of it may be undone, another binder may be at it.
    dropped: bool = False


class Executor:
    """Runs assignments; ``report`` is called with every result. ``clock`` is the one of the deadlines.

    ``longest_bind``: what the time limits of a bind add up to, in seconds.
    """

    def __init__(
        self,
        binder: PodBinder,
        *,
        fence: Fence,
        report: Callable[[Result], None],
        binding_at_most: int,
        longest_bind: float = BIND_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        controller: ControllerSeries | None = None,
    ) -> None:
        self._binder = binder
        self._fence = fence
        self._report = report
        self._verdict_seconds = longest_bind + VERDICT_MARGIN
        self._clock = clock
        self._controller = controller or ControllerMetrics(CollectorRegistry()).of("decisions")
        self._binding = asyncio.Semaphore(binding_at_most)
        self._preparing = asyncio.Semaphore(PREPARING_AT_MOST)
        self._executions: dict[str, _Execution] = {}
        #: Pods that are bound, told as such, and not marked yet; and who marks them.
        self._unmarked: deque[BindDecision] = deque()
        self._marking: set[asyncio.Task[None]] = set()
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        return len(self._executions)

    async def run(self) -> None:
        """Own the executions, until cancelled; then drop those that can be dropped and await the others.

        Raises:
            Unauthorized: the API server does not know us any more.
        """
        try:
            await asyncio.shield(self._fatal)
        finally:
            await self.drop()
            await self.finish()

    # --- told by the leader --------------------------------------------------------------------
    def start(self, batch: DecisionBatch) -> None:
        """Begin with the decisions of a batch; those that we work on already are ours already."""
        for assignment in batch.assignments:
            if assignment.decision_id in self._executions:
                continue
            verdict = asyncio.get_running_loop().create_future()
            execution = _Execution(assignment, batch.epoch, batch.deadline, verdict)
            self._executions[assignment.decision_id] = execution
            execution.task = asyncio.create_task(self._execute(execution), name=assignment.decision_id)

    def verdict(self, *, bind: Iterable[str], abandon: Iterable[str]) -> None:
        """Go on with, or undo, what was prepared (decision ids); unknown ones are ignored."""
        for ids, value in ((bind, True), (abandon, False)):
            for decision_id in ids:
                execution = self._executions.get(decision_id)
                if execution is not None and not execution.verdict.done():
                    execution.verdict.set_result(value)

    # --- stopping ------------------------------------------------------------------------------
    async def drop(self) -> list[InFlight]:
        """Stop everything that has not reached its bind call; what has, and goes on."""
        stopped: list[asyncio.Task[None]] = []
        for execution in self._executions.values():
            execution.dropped = True
            if not execution.binding and execution.task is not None:
                execution.task.cancel()
                stopped.append(execution.task)
        if stopped:
            await asyncio.wait(stopped)
        for decision_id, execution in list(self._executions.items()):
            if execution.task in stopped:  # one that had not begun ends without a step of its own
                del self._executions[decision_id]
        return [
            InFlight(
                decision_id=execution.assignment.decision_id,
                pod_uid=execution.assignment.decision.pod.uid,
                node=execution.assignment.decision.node,
                epoch=execution.epoch,
            )
            for execution in self._executions.values()
        ]

    async def finish(self) -> None:
        """Wait for what goes on, and what comes of it."""
        while tasks := {task for task in self._at_work() if not task.done()}:
            await asyncio.wait(tasks)

    def _at_work(self) -> Iterator[asyncio.Task[None]]:
        yield from self._marking
        yield from (each.task for each in self._executions.values() if each.task is not None)

    # --- one decision --------------------------------------------------------------------------
    async def _execute(self, execution: _Execution) -> None:
        assignment = execution.assignment
        try:
            with self._controller.working():
                result = await self._result(execution)
        except asyncio.CancelledError:
            if not execution.dropped:
                raise
        except Unauthorized as error:
            if not self._fatal.done():
                self._fatal.set_exception(error)
        except Exception as error:  # noqa: BLE001 (one bad pod must not stop the others)
            self._controller.ended(WorkResult.ERROR)
            _log.exception("bind ended by a defect", pod=_pod(assignment), node=assignment.decision.node)
            reason = f"internal error of the binder ({type(error).__name__}: {error})"
            await self._tell(assignment.decision, reason)
            self._report(_answer(assignment, ResultStatus.FAILED, reason))
        else:
            bound = result.status is ResultStatus.BOUND
            self._controller.ended(WorkResult.SUCCESS if bound else WorkResult.ERROR)
            self._report(result)
            if bound:
                self._mark_soon(assignment.decision)
        finally:
            self._executions.pop(assignment.decision_id, None)

    def _mark_soon(self, decision: BindDecision) -> None:
        """Have done what need not be there when the scheduler hears of the bind."""
        self._unmarked.append(decision)
        if len(self._marking) < MARKING_AT_MOST:
            self._marking.add(asyncio.create_task(self._mark(), name="mark bound pods"))

    async def _mark(self) -> None:
        """Mark those that are first in line, until none is left."""
        while self._unmarked:
            rank = Rank.NEWS if len(self._unmarked) < HURRIED else Rank.STATUS
            decision = self._unmarked.popleft()
            try:
                await self._binder.after_bind(decision, rank=rank)
            except Exception:  # noqa: BLE001 (the pod is bound whatever happens)
                _log.exception("pod bound, but not marked", pod=_name(decision))
        # Now, and not when the task is done: for who is bound in between nobody would be started.
        self._marking = {task for task in self._marking if task is not asyncio.current_task()}

    async def _tell(self, decision: BindDecision, reason: str) -> None:
        """Tell the pod's owner as of any bind that failed; this may fail as well."""
        try:
            await self._binder.tell_failed(decision, reason)
        except Exception:  # noqa: BLE001 (the scheduler is to be answered whatever happens)
            _log.exception("bind failure not told", pod=_name(decision))

    async def _result(self, execution: _Execution) -> Result:
        assignment, decision = execution.assignment, execution.assignment.decision
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            work = await _insist(lambda: self._prepare(execution))
            if assignment.prepare_only:
                await self._verdict(execution)
            waited = work is not None or assignment.prepare_only
            if waited and clock() - began >= LONG_SECONDS:
                await _insist(lambda: self._binder.check(decision, work))
            await _insist(lambda: self._bind(execution))
        except Rejected as error:
            return _answer(assignment, ResultStatus.REJECTED, str(error))
        except BindFailed as error:
            return await self._failed(execution, error)
        return _answer(assignment, ResultStatus.BOUND)

    async def _failed(self, execution: _Execution, error: BindFailed) -> Result:
        """Undo what was done, and tell of it who has not deleted the pod's namespace."""
        assignment, decision = execution.assignment, execution.assignment.decision
        given_up = isinstance(error, GivenUp)
        say = _log.info if given_up else _log.warning
        say("bind failed", pod=_pod(assignment), node=decision.node, reason=str(error))
        if not execution.dropped:
            bound_to = await self._binder.undo(decision)
            if bound_to == decision.node:
                return _answer(assignment, ResultStatus.BOUND)
            # By another decision it may be bound elsewhere, and then nothing is amiss.
            if not bound_to and not given_up:
                await self._binder.tell_failed(decision, str(error))
        status = ResultStatus.REJECTED if given_up else ResultStatus.FAILED
        return _answer(assignment, status, str(error), node_at_fault=error.node_at_fault)

    async def _prepare(self, execution: _Execution) -> Work | None:
        decision = execution.assignment.decision
        self._check_startable(execution)
        if self._binder.is_ordinary(decision):
            return None
        async with self._preparing:
            self._check_startable(execution)
            return await self._binder.prepare(decision)

    async def _verdict(self, execution: _Execution) -> None:
        assignment = execution.assignment
        self._report(_answer(assignment, ResultStatus.PREPARED))
        try:
            async with asyncio.timeout(self._verdict_seconds):
                bind = await execution.verdict
        except TimeoutError:
            raise BindFailed(f"no verdict about the gang within {self._verdict_seconds:g} s") from None
        if not bind:
            raise BindFailed("another pod of the gang could not be prepared")

    async def _bind(self, execution: _Execution) -> None:
        decision = execution.assignment.decision
        async with self._binding:
            if not self._fence.admits(execution.epoch):
                raise Rejected(f"epoch {execution.epoch} is over: {self._fence.epoch} leads")
            execution.binding = True
            try:
                await self._binder.bind(decision)
            except BindFailed:  # that it is undone may be dropped, as what comes before the bind
                execution.binding = False
                raise

    def _check_startable(self, execution: _Execution) -> None:
        if not self._fence.admits(execution.epoch):
            raise Rejected(f"epoch {execution.epoch} is over: {self._fence.epoch} leads")
        if self._clock() > execution.deadline:
            raise Rejected("past its deadline")


async def _insist(step: Callable[[], Awaitable[T]]) -> T:
    """Do something that may be refused at first."""
    for pause in REFUSED_SECONDS:
        try:
            return await step()
        except Refused as error:
            _log.info("refused; trying again", seconds=pause, reason=str(error))
        await asyncio.sleep(pause)
    return await step()


def _answer(
    assignment: Assignment, status: ResultStatus, reason: str = "", *, node_at_fault: bool = False
) -> Result:
    return Result(
        decision_id=assignment.decision_id,
        pod_uid=assignment.decision.pod.uid,
        status=status,
        reason=reason,
        node_at_fault=node_at_fault,
    )


def _pod(assignment: Assignment) -> str:
    return _name(assignment.decision)


def _name(decision: BindDecision) -> str:
    return f"{decision.pod.namespace}/{decision.pod.name}"
