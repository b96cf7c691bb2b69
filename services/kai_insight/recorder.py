"""Follows cluster and schedulers, and has what happens recorded: once, also over restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import structlog

from kai.history.continuation import position, recorded, standing
from kai.history.questions import Selection, find
from kai.history.records import AnyRecord, Taking
from kai.history.store import Store
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS
from kai.model.dra import ResourceClaim
from kai.model.objects import Node, PodGroup
from kai.runtime import freeze_garbage
from kai.wire.sessions import SessionUpdate, take_each, watch_sessions
from kai.wire.shards import Shard, ShardFollower
from kai_insight.buffer import Buffer
from kai_insight.decisions import GONE, SessionBook
from kai_insight.forecasts import Forecasts
from kai_insight.pods import PodRecord
from kai_insight.queue_states import QueueSampler
from kai_insight.runs import EVICTION_SECONDS, RunLedger
from kai_insight.settings import InsightSettings
from kai_insight.surroundings import Surroundings
from kai_insight.writer import StoreState

_log = structlog.get_logger(__name__)


class Recorder:
    """Fills one buffer, going on from what is in the store."""

    def __init__(
        self,
        client: KubeClient,
        settings: InsightSettings,
        *,
        store: Store,
        state: StoreState,
        buffer: Buffer,
        forecasts: Forecasts,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._store = store
        self._state = state

        def put(record: AnyRecord) -> None:
            buffer.put(record)
            forecasts.look(record)

        self._surroundings = Surroundings(
            lambda group: self._runs.regrouped(group), gone=lambda group: self._sessions.gone(group)
        )
        self._runs = RunLedger(self._surroundings, put=put, now=now)
        self._sessions = SessionBook(
            self._surroundings,
            put=put,
            run_of=self._runs.get,
            evicted=lambda uid, at: self._runs.evicted(uid, at=at),
            now=now,
        )
        self._queues = QueueSampler(interval=settings.queue_interval, put=put, now=now)
        self._reflectors = self._follow()
        #: Whether everything that exists is taken in.
        self.begun = False

    def _follow(self) -> list[tuple[Reflector[Any], Any]]:
        """Pods last: what they hold, and for whom, is known when they come."""
        client, known = self._client, self._surroundings
        ours = f"spec.schedulerName={self._settings.scheduler_name}"
        return [
            (Reflector(client, NODES, Node), known.node_sink),
            (Reflector(client, RESOURCE_CLAIMS, ResourceClaim, optional=True), known.claim_sink),
            (Reflector(client, POD_GROUPS, PodGroup), known.group_sink),
            (Reflector(client, PODS, PodRecord, field_selector=ours), self._runs.pod_sink),
        ]

    async def run(self) -> None:
        """Record until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector, sink in self._reflectors:
                tasks.create_task(reflector.run(sink), name=f"watch {reflector.resource.plural}")
                await reflector.synced.wait()
            await self._begin()
            freeze_garbage()
            self.begun = True
            tasks.create_task(self._queues.run(), name="sample queues")
            tasks.create_task(self._follow_shards(), name="follow shards")

    async def _begin(self) -> None:
        """Nothing is awaited between the last answer of the store and the beginning."""
        database, ask = self._store.database, self._state.until_answered
        seen = await ask(self._store.seen)
        running = await ask(self._store.open_runs)
        if seen is not None:
            lately = Selection(since=seen - EVICTION_SECONDS)
            for eviction in reversed(await ask(lambda: find(database, Taking, lately))):
                self._runs.evicted(eviction.pod_uid, at=eviction.at)
        strangers = self._runs.strangers([run.pod_uid for run in running])
        known = await ask(lambda: recorded(database, strangers))
        self._runs.begin(running, recorded=known, seen=seen)
        _log.info("recording", running=len(running), seen=seen)

    async def _follow_shards(self) -> None:
        settings = self._settings
        follower = ShardFollower(self._client, scheduler_name=settings.scheduler_name, told=settings.shards)
        await follower.run(self._listen, gone=lambda shard: self._queues.gone(shard.name))

    async def _listen(self, shard: Shard) -> None:
        """Record what one scheduler publishes, from where the store ends if it still keeps that."""
        database, ask, settings = self._store.database, self._state.until_answered, self._settings
        after = await ask(lambda: position(database, shard.name))
        decisions = await ask(lambda: standing(database, shard.name, gone=GONE))
        self._sessions.begin(shard.name, decisions)
        updates = watch_sessions(
            self._client,
            lease_name=shard.lease,
            namespace=settings.namespace,
            tls=settings.tls,
            after=after,
            from_first=True,
        )
        await take_each(updates, self._take, shard=shard.name)

    def _take(self, shard: str, update: SessionUpdate) -> None:
        self._sessions.take(shard, update)
        self._queues.take(shard, update)
