"""One term of leading: cycles, and what becomes of their decisions."""

from __future__ import annotations

import asyncio
import math
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from kai.kube.client import KubeClient
from kai.model.decisions import BindDecision, CycleResult, Eviction
from kai.model.failures import blame_one_of
from kai.model.ids import PodUid
from kai.model.pauses import doubled
from kai.runtime import FatalError
from kai.session.cache import InFlightDecision, Publication
from kai.session.publisher import SessionPublisher
from kai.snapshot.changes import Changes
from kai.snapshot.idle_claims import idle_reservations
from kai.snapshot.reports import BindDone, BindFailed, BindUnderWay, EvictionFailed
from kai.wire.decisions import Assignment, DecisionBatch, encode_batch
from kai.wire.v1.session_pb2 import WatchSessionsResponse
from kai_scheduler.changes import ChangeQueue, Urgency
from kai_scheduler.core import LONG_CYCLE_SECONDS, Core, Usage
from kai_scheduler.cycles import CycleLog
from kai_scheduler.decisions import BinderStreams
from kai_scheduler.dispatch import (
    DECISION_SECONDS,
    LOST_BINDER_SECONDS,
    NOBODY,
    Inherited,
    Settled,
    takes_preparation,
)
from kai_scheduler.evictions import Evictor
from kai_scheduler.idle_claims import give_back
from kai_scheduler.metrics import SchedulerMetrics
from kai_scheduler.pace import Pace
from kai_scheduler.refusals import RefusalWatch
from kai_scheduler.retries import Retries
from kai_scheduler.sessions import KEPT_SECONDS, SessionLog, is_pending
from kai_scheduler.settings import SchedulerSettings
from kai_scheduler.snapshots import Snapshots
from kai_scheduler.steady import steady
from kai_scheduler.troubles import Troubles

#: How long a new leader waits for a binder that may tell what it still does for the last one.
FIRST_BINDER_SECONDS: Final = 2.0
#: After a cycle that failed whoever was set aside: until the next, at first, doubling, and at most.
PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
#: A defect that shows in so many cycles in a row, over minutes, is not weather: start afresh.
FAILURES_IN_A_ROW: Final = 8

#: So much is kept of the reason for which a pod was not let go.
WHY_CHARACTERS: Final = 256
#: How often claims are looked for that hold devices for nobody.
CLAIMS_PERIOD_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


class Leadership:
    """Decides and has its decisions carried out, for as long as :meth:`run` runs.

    ``leads`` tells whether the Lease is ours beyond doubt. ``clock`` gives Unix seconds.
    """

    def __init__(
        self,
        *,
        epoch: int,
        identity: str,
        settings: SchedulerSettings,
        client: KubeClient,
        core: Core,
        changes: ChangeQueue,
        metrics: SchedulerMetrics,
        publisher: SessionPublisher | None,
        snapshots: Snapshots,
        troubles: Troubles,
        leads: Callable[[], bool],
        usage: Callable[[], Usage] = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.log = SessionLog(
            epoch=epoch,
            shard=settings.shard,
            node_pool=settings.partition_label_value,
            failed=lambda error: troubles.note("session", error),
        )
        self.cycles = CycleLog(core, epoch=epoch, shard=settings.shard)
        self.decisions = BinderStreams(
            epoch=epoch, identity=identity, clock=steady(clock), ended=self._ended, troubles=troubles
        )
        self._evictor = Evictor(
            client,
            through_api=settings.eviction_api,
            set_condition=settings.update_pod_eviction_condition,
            evicted=self._evicted,
            failed=self._not_evicted,
            troubles=troubles,
            leads=leads,
        )
        self._leads = leads
        self._client = client
        #: Held by whoever decides, or makes that impossible for a moment.
        self._deciding = asyncio.Lock()
        self._refusals = RefusalWatch(client, changes, metrics, clock=clock)
        self._settings = settings
        self._core = core
        self._changes = changes
        self._metrics = metrics
        self._publisher = publisher
        self._snapshots = snapshots
        self._troubles = troubles
        self._next_snapshot = 0.0
        self._usage = usage
        self._clock = clock
        metrics.outstanding.set_function(lambda: len(self.decisions))
        metrics.binders.set_function(lambda: self.decisions.binders)
        self._pending: set[str] = set()
        metrics.pending.set_function(lambda: len(self._pending))
        self._decided_at: dict[str, float] = {}
        self._retries = Retries(period=settings.schedule_period)

    async def run(self) -> None:
        """Decide until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._evictor.run(), name="evictions")
                group.create_task(self._refusals.run(), name="refusals")
                group.create_task(self.decisions.run(), name="decisions")
                group.create_task(self._cycles(), name="cycles")
                group.create_task(self._look_after_claims(), name="idle claims")
                group.create_task(self._forget_sessions(), name="past sessions")
        finally:
            self.log.close()
            self.cycles.close()
            self.decisions.close()

    async def _forget_sessions(self) -> None:
        while True:
            await asyncio.sleep(KEPT_SECONDS)
            self.log.forget(now=self._clock())

    # --- cycles --------------------------------------------------------------------------------
    async def _cycles(self) -> None:
        try:
            async with asyncio.timeout(FIRST_BINDER_SECONDS):
                await self.decisions.some_binder()
        except TimeoutError:
            _log.info("no binder yet; deciding all the same")
        loop = asyncio.get_running_loop()
        pace = Pace(longest=self._settings.schedule_period)
        timer, not_before, failures = loop.time(), 0.0, 0
        while True:
            await self._changes.wait(timer=timer, not_before=not_before)
            started = loop.time()
            try:
                async with self._deciding:
                    result = await self._cycle()
            except Exception as error:
                failures += 1
                self._metrics.cycle_failures.inc()
                _log.exception("cycle failed", in_a_row=failures)
                self._troubles.note("cycle", error)
                if failures >= FAILURES_IN_A_ROW:
                    raise FatalError("cycles fail one after the other; starting afresh may help") from error
                pause = doubled(PAUSE_SECONDS, failures - 1, most=LONGEST_PAUSE_SECONDS)
                timer = not_before = loop.time() + pause
                continue
            failures, ended = 0, loop.time()
            decided = bool(result.binds or result.evictions)
            not_before = ended + pace.rest(
                started=started, ended=ended, decided=decided, gave_way=result.gave_way
            )
            timer = ended if result.gave_way else ended + self._idle_seconds(result)

    async def _cycle(self) -> CycleResult:
        opened_at, started = self._clock(), time.perf_counter()
        batch = self._changes.take()
        usage = self._usage()
        try:
            result = await self._core.cycle(
                batch, now=opened_at, usage=usage, hurry=lambda: self._changes.prompt
            )
        except Exception:
            self.cycles.interrupt()
            raise
        took = time.perf_counter() - started
        if took > LONG_CYCLE_SECONDS:
            spent = {phase: round(seconds, 2) for phase, seconds in result.timings.items()}
            _log.warning("long cycle", seconds=round(took, 2), by_phase=spent)
        # What was decided is given out first; nothing that is told to others can keep it back.
        self._carry_out(result)
        self._remember_pending(result)
        with self._troubles.cut_off("metrics"):
            self._metrics.cycle(result, seconds=took)
            self._metrics.forget(result.forgotten)
        with self._troubles.cut_off("publication"):
            message = self.log.record(result, opened_at=opened_at)
            if message is not None:
                await self._publish(message, result, opened_at)
        self._tell_cycle(batch, result, opened_at=opened_at, usage=usage)
        return result

    def _tell_cycle(self, batch: Changes, result: CycleResult, *, opened_at: float, usage: Usage) -> None:
        try:
            self.cycles.record(batch, result, version=self.log.version, opened_at=opened_at, usage=usage)
        except Exception as error:  # noqa: BLE001 (any object may be at fault; only who listens misses it)
            self._troubles.note("recording", error)
            self.cycles.interrupt()

    def _carry_out(self, result: CycleResult) -> None:
        try:
            self._give_out(result.binds)
        except Exception as error:  # noqa: BLE001 (evictions and what comes later are still to be carried out)
            self._troubles.note("binds", error)
            for bind in result.binds:
                self._retry_later(bind.pod.uid, counts=True)
        for eviction in result.evictions:
            with self._troubles.cut_off("eviction", about=f"{eviction.pod.namespace}/{eviction.pod.name}"):
                self._evictor.offer(eviction)

    async def _look_after_claims(self) -> None:
        """Give back what attempts to bind have left, as long as we lead.

        What a binder does for the leader before may not be known at first; it has stopped by itself then.
        """
        await asyncio.sleep(LOST_BINDER_SECONDS)
        while True:
            if self._pending and self._leads():
                # Nobody must be bound by a claim that is being given back.
                async with self._deciding:
                    with self._troubles.cut_off("idle claims"):
                        await self._give_back_claims()
            await asyncio.sleep(CLAIMS_PERIOD_SECONDS)

    async def _give_back_claims(self) -> None:
        under_way = {decision.pod.uid for decision, _ in self.decisions.outstanding.values()}
        found = await self._core.ask(lambda state: idle_reservations(state, under_way=under_way))
        if found:
            await give_back(self._client, found)

    def _idle_seconds(self, result: CycleResult) -> float:
        """How long until time alone is a reason to look again."""
        if result.next_due:
            return max(result.next_due - self._clock(), self._settings.schedule_period)
        return self._settings.schedule_period if self._pending else math.inf

    def _remember_pending(self, result: CycleResult) -> None:
        self._pending.difference_update(result.forgotten)
        for outcome in result.outcomes:
            if is_pending(outcome):
                self._pending.add(outcome.pod_group)
            else:
                self._pending.discard(outcome.pod_group)

    # --- decisions -----------------------------------------------------------------------------
    def _give_out(self, binds: tuple[BindDecision, ...]) -> None:
        now = self._clock()
        for decision in binds:
            self._decided_at[decision.pod.uid] = now
            if created := self._changes.waiting_since.get(decision.pod.uid):
                self._metrics.task_latency.observe(max(now - created, 0.0) * 1000)
        groups = self._changes.groups
        with_claims = self._changes.pods_with_claims
        self.decisions.decide(
            binds,
            needs_preparation=lambda decision: takes_preparation(decision) or decision.pod.uid in with_claims,
            is_gang=lambda key: key in groups and groups[key].gang,
        )

    def _ended(self, end: Settled | Inherited) -> None:
        match end:
            case Settled(_, decision, bound, reason, node_at_fault):
                if node_at_fault:
                    pod = f"{decision.pod.namespace}/{decision.pod.name}"
                    self._refusals.refused(decision.node, decision.pod.namespace, pod=pod, why=reason)
                self._settled(decision, bound=bound, reason=reason)
            case Inherited(uid, node, None):
                self._changes.note(BindUnderWay(uid, node))
            case Inherited(uid, _, True):
                self._changes.note(BindDone(uid), Urgency.SOON)
            case Inherited(uid, node):
                self._changes.note(BindFailed(uid, node))

    def _settled(self, decision: BindDecision, *, bound: bool, reason: str) -> None:
        uid = decision.pod.uid
        decided_at = self._decided_at.pop(uid, None)
        if decided_at is not None:
            self._metrics.bind_latency.observe((self._clock() - decided_at) * 1000)
        self._metrics.binds.labels("bound" if bound else "failed").inc()
        if bound:
            self._retries.bound(uid)
            self._changes.note(BindDone(uid), Urgency.SOON)
            return
        pod = f"{decision.pod.namespace}/{decision.pod.name}"
        _log.warning("pod not bound", pod=pod, node=decision.node, reason=reason)
        self._retry_later(uid, counts=reason != NOBODY)

    def _retry_later(self, uid: PodUid, *, counts: bool) -> None:
        """Let the engine decide anew about a pod, the later the more often it has failed.

        Until then it keeps its place: a reason that lasts must not cost the API server a bind each second.
        """
        delay = self._retries.failed(uid, counts=counts, waiting=self._changes.waiting_since)
        asyncio.get_running_loop().call_later(delay, self._changes.note, BindFailed(uid))

    def _evicted(self, eviction: Eviction) -> None:
        group = self._changes.groups.get(eviction.pod.pod_group)
        self._metrics.evicted_of(
            eviction.pod.pod_group,
            uid=group.uid if group is not None else None,
            node_pool=self._settings.state_params.pool_name,
            action=eviction.action,
        )

    def _not_evicted(self, eviction: Eviction, reason: str) -> None:
        why = textwrap.shorten(reason, WHY_CHARACTERS, placeholder=" …")
        self._changes.note(EvictionFailed(eviction.pod.uid, why=why, at=self._clock()), Urgency.SOON)

    # --- publishing ----------------------------------------------------------------------------
    async def _publish(self, message: WatchSessionsResponse, result: CycleResult, opened_at: float) -> None:
        if message.shares.rows or message.full:
            self._metrics.queues(result.shares)
        if self._publisher is None:
            return
        epoch = self.log.epoch
        outstanding = self.decisions.outstanding
        batch = DecisionBatch(
            epoch=epoch,
            deadline=opened_at + DECISION_SECONDS,
            assignments=tuple(Assignment(decision_id=bind.pod.uid, decision=bind) for bind in result.binds),
        )
        snapshot = await self._cut_now_and_then()
        newest = self._snapshots.newest
        self._publisher.offer(
            Publication(
                version=self.log.version,
                epoch=epoch,
                opened_at=opened_at,
                digest=newest.digest if newest is not None else "",
                snapshot=snapshot,
                update=message.SerializeToString(),
                decisions=_encoded(batch) if result.binds else b"",
                in_flight={
                    key: InFlightDecision(
                        pod=f"{decision.pod.namespace}/{decision.pod.name}",
                        pod_uid=decision.pod.uid,
                        node=decision.node,
                        epoch=epoch,
                        deadline=deadline,
                        gpu_groups=decision.gpu_groups,
                    )
                    for key, (decision, deadline) in outstanding.items()
                },
            )
        )

    async def _cut_now_and_then(self) -> bytes:
        """An encoded snapshot, or nothing if the last is young; it takes a hundredth of our time at most."""
        now = time.monotonic()
        if now < self._next_snapshot:
            return b""
        self._next_snapshot = now + self._settings.snapshot_period
        snapshot = None
        with self._troubles.cut_off("snapshot"):
            snapshot = await self._snapshots.get()
        took = time.monotonic() - now
        self._next_snapshot = now + max(self._settings.snapshot_period, 100 * took)
        return snapshot.data if snapshot is not None else b""


def _encoded(batch: DecisionBatch) -> bytes:
    try:
        return encode_batch(batch).SerializeToString()
    except Exception:
        blame_one_of(
            batch.assignments,
            lambda some: encode_batch(replace(batch, assignments=tuple(some))),
            about=lambda each: f"Pod {each.decision.pod.namespace}/{each.decision.pod.name}",
        )
        raise
