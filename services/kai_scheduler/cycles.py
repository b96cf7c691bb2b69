"""Cycles told to who wants to decide them again, as they are decided; nothing is done while nobody does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

import structlog

from kai.history.recordings import Entry
from kai.model.decisions import CycleResult
from kai.replay.cycles import CannotBeTold, take_base, write_cycle
from kai.snapshot.changes import Changes
from kai.snapshot.state import ClusterState
from kai_scheduler.core import Core, Usage

#: What waits for one who reads too slowly; with more he has to begin anew.
MOST_WAITING_BYTES: Final = 64 << 20

_log = structlog.get_logger(__name__)


class _Reader:
    """What one who listens has not read yet."""

    def __init__(self) -> None:
        self._waiting: deque[Entry] = deque()
        self._size = 0
        self._news = asyncio.Event()
        #: Nothing more comes: something was not told.
        self.broken = False

    def put(self, entry: Entry) -> None:
        if self.broken:  # and his stream has not come to end yet
            return
        self._waiting.append(entry)
        self._size += len(entry.data)
        if self._size > MOST_WAITING_BYTES:
            self.end()
        self._news.set()

    def end(self) -> None:
        self.broken = True
        self._waiting.clear()
        self._news.set()

    async def next(self) -> Entry | None:
        """The oldest; None once there is nothing more to come."""
        while not self._waiting:
            if self.broken:
                return None
            self._news.clear()
            await self._news.wait()
        entry = self._waiting.popleft()
        self._size -= len(entry.data)
        return entry


class CycleLog:
    """Tells the cycles of one term. ``clock`` is monotonic, ``now`` gives Unix seconds."""

    def __init__(
        self,
        core: Core,
        *,
        epoch: int,
        shard: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._core = core
        self._epoch = epoch
        self._shard = shard
        self._clock = clock
        self._now = now
        self._readers: set[_Reader] = set()
        #: Of cycles that were told, or would have been.
        self._number = 0
        self._version = 0
        self._closed = False

    def record(
        self, batch: Changes, result: CycleResult, *, version: int, opened_at: float, usage: Usage
    ) -> None:
        """A cycle is over, which took in a batch; ``version`` is that of the last session."""
        self._number, self._version = self._core.cycles, version
        if not self._readers:
            return
        entry = Entry(
            shard=self._shard,
            epoch=self._epoch,
            number=self._number,
            version=version,
            at=opened_at,
            base=False,
            data=write_cycle(batch, result, number=self._number, version=version, now=opened_at, usage=usage),
        )
        for reader in self._readers:
            reader.put(entry)

    def interrupt(self) -> None:
        """A cycle was not told, say since it failed: whoever listens begins anew."""
        for reader in self._readers:
            reader.end()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self.interrupt()

    async def watch(self, *, base_seconds: float) -> AsyncGenerator[Entry]:
        """A base, what follows, and another base after so long. Ends where something was not told.

        Raises:
            CannotBeTold: there can be no base now.
        """
        reader = _Reader()
        self._readers.add(reader)
        try:
            base = await self._base()
            last, due, waiting = base.number, self._clock() + base_seconds, None
            yield base
            while not self._closed:
                if waiting is None and self._clock() >= due:
                    with suppress(CannotBeTold):  # what was begun goes on
                        waiting = await self._base()
                    due = self._clock() + base_seconds
                if waiting is not None and last >= waiting.number:
                    yield waiting
                    waiting = None
                entry = await reader.next()
                if entry is None:
                    return
                if entry.number > last:  # what the first base knows already is no news
                    last = entry.number
                    yield entry
        finally:
            self._readers.discard(reader)

    async def _base(self) -> Entry:
        """All that decisions depend on now, between two cycles."""
        core, now = self._core, self._now()

        def take(state: ClusterState) -> tuple[int, bytes]:
            return core.cycles, take_base(state, core.engine, now=now)

        number, data = await core.question(take)
        return Entry(
            shard=self._shard,
            epoch=self._epoch,
            number=number,
            version=self._version,
            at=now,
            base=True,
            data=data,
        )
