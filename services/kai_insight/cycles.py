"""Keeps the cycles of schedulers for a while, so that they can be decided again, and does that itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from kai.history import recordings
from kai.history.databases import Database
from kai.history.errors import HistoryError
from kai.history.recordings import Entry
from kai.kube.client import KubeClient
from kai.wire.cycles import watch_cycles
from kai.wire.shards import Shard, ShardFollower
from kai_insight.backlog import bounded
from kai_insight.checker import Checker, Examination
from kai_insight.examiner import Examiner
from kai_insight.live.live import Live
from kai_insight.metrics import ReplayMetrics
from kai_insight.settings import InsightSettings
from kai_insight.verdicts import Verdicts
from kai_insight.writer import StoreState

#: From one base to the next: so much has to be decided again at most before the cycle that somebody asks for.
BASE_SECONDS: Final = 300.0
#: How often what is too old is removed.
HOUSEKEEPING_SECONDS: Final = 60.0
#: What waits for a store that does not answer: cycles of all shards, and bases of each. Cycles beyond are not
#: kept; a base, which may be larger by itself, takes the place of earlier ones of its shard and their cycles.
MOST_WAITING_BYTES: Final = 64 << 20

_log = structlog.get_logger(__name__)


class CycleRecorder:
    """Follows the schedulers of all shards. ``now`` gives Unix seconds."""

    def __init__(
        self,
        client: KubeClient,
        settings: InsightSettings,
        *,
        database: Database,
        state: StoreState,
        metrics: ReplayMetrics,
        verdicts: Verdicts,
        live: Live | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._database = database
        self._state = state
        self._metrics = metrics
        self._verdicts = verdicts
        self._live = live
        self._now = now
        self._waiting: list[Entry] = []
        #: Bytes of cycles that wait, and of those that are just written.
        self._size = 0
        #: Shards of which something was not kept: only a base makes what follows of use again.
        self._cut_off: set[str] = set()

    async def run(self, opened: asyncio.Event) -> None:
        """Record until cancelled; where nothing is to be recorded, remove what was, and end.

        Cycles are followed, and what waits is looked at, before the store is ``opened``: who looks on, and
        who waits for verdicts, need none.
        """
        if not self._settings.replay_retention:
            await opened.wait()
            await self._state.until_answered(lambda: recordings.clear(self._database))
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name="follow cycles")
            await opened.wait()
            tasks.create_task(self._write(), name="write cycles")
            tasks.create_task(self._keep_house(), name="forget cycles")

    async def _follow(self) -> None:
        settings = self._settings
        follower = ShardFollower(self._client, scheduler_name=settings.scheduler_name, told=settings.shards)
        await follower.run(self._listen, gone=lambda shard: None)

    async def _listen(self, shard: Shard) -> None:
        settings = self._settings
        entries = watch_cycles(
            self._client,
            lease_name=shard.lease,
            namespace=settings.namespace,
            base_seconds=BASE_SECONDS,
            tls=settings.tls,
        )
        checker = self._checker(shard) if settings.replay_check else None
        try:
            async for entry in entries:
                self._keep(entry)
                if checker is not None:
                    checker.put(entry)
        finally:
            if checker is not None:
                await checker.close()

    def _checker(self, shard: Shard) -> Checker:
        settings = self._settings
        examination = None
        if settings.verdict_interval:
            examiner = Examiner(most_pods=settings.verdict_pods)
            examination = Examination(examiner, self._verdicts, interval=settings.verdict_interval)
        return Checker(shard.name, self._metrics, examination=examination, live=self._live)

    def _keep(self, entry: Entry) -> None:
        if entry.base:
            self._cut_off.discard(entry.shard)
        else:
            no_room = self._size > 0 and self._size + len(entry.data) > MOST_WAITING_BYTES
            if no_room or entry.shard in self._cut_off:
                self._cut_off.add(entry.shard)
                self._metrics.lost.inc()
                return
            self._size += len(entry.data)
        self._waiting.append(entry)
        if entry.base:
            self._make_room(entry.shard)

    def _make_room(self, shard: str) -> None:
        """Let go of bases that are too much for a shard, with what follows them."""
        self._waiting, dropped = bounded(self._waiting, shard, most=MOST_WAITING_BYTES)
        self._size -= _size_of_cycles(dropped)
        self._metrics.lost.inc(sum(not each.base for each in dropped))

    async def _write(self) -> None:
        """Once in a while all that waits; what cannot be written waits on."""
        while True:
            await asyncio.sleep(self._settings.write_interval)
            if not self._waiting:
                continue
            batch, self._waiting = self._waiting, []
            try:
                await self._state.asked(lambda batch=batch: recordings.add(self._database, batch))  # type: ignore[misc]
            except HistoryError:
                self._waiting = [*batch, *self._waiting]
                for shard in {each.shard for each in batch}:
                    self._make_room(shard)
                continue
            self._size -= _size_of_cycles(batch)
            self._metrics.recorded.inc(sum(not entry.base for entry in batch))

    async def _keep_house(self) -> None:
        settings = self._settings
        while True:
            before = self._now() - settings.replay_retention
            try:
                await self._state.asked(
                    lambda before=before: recordings.forget(  # type: ignore[misc]
                        self._database, before=before, most_bytes=settings.replay_bytes
                    )
                )
                self._metrics.size.set(await self._state.asked(lambda: recordings.size(self._database)))
            except HistoryError as error:
                _log.debug("recorded cycles are not looked through", reason=str(error))
            await asyncio.sleep(HOUSEKEEPING_SECONDS)


def _size_of_cycles(entries: Iterable[Entry]) -> int:
    """Bytes, without bases."""
    return sum(len(each.data) for each in entries if not each.base)
