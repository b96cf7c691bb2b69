"""Writes what waits to the store, and removes what is too old. What fails is told and tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import structlog

from kai.history.errors import STORE_AWAY, HistoryError
from kai.history.store import Store
from kai.kube.backoff import Backoff
from kai_insight.buffer import Buffer
from kai_insight.metrics import InsightMetrics

T = TypeVar("T")

#: Until when things were looked at is written so often, also where nothing happens.
SEEN_SECONDS: Final = 10.0
#: How often what is too old is removed, and the size looked at.
HOUSEKEEPING_SECONDS: Final = 3600.0
#: The longest pause between two tries.
PATIENCE_SECONDS: Final = 15.0
#: What is spent at the end on writing what still waits; of what is left of a term only this part, for others
#: have to end as well.
LAST_SECONDS: Final = 3.0
_PART_OF_TERM: Final = 0.5

_log = structlog.get_logger(__name__)


class StoreState:
    """Whether the store answers; told once when that changes, in the log, as metric and by /readyz."""

    def __init__(self, metrics: InsightMetrics) -> None:
        self._metrics = metrics
        self._answers: bool | None = None
        #: That it does not answer, for whoever asks; empty while it does. Where it is, and what it said
        #: itself, stands in the log only: probes are answered to everybody.
        self.trouble = "the store was not opened yet"

    async def asked(self, question: Callable[[], T]) -> T:
        """What the store says to a question, asked in another thread.

        Raises:
            HistoryError: it does not answer.
        """
        try:
            answer = await asyncio.to_thread(question)
        except HistoryError as error:
            self._failed(str(error))
            raise
        self._works()
        return answer

    async def until_answered(self, question: Callable[[], T]) -> T:
        """The same, asked until it is answered."""
        backoff = Backoff(maximum=PATIENCE_SECONDS)
        while True:
            try:
                return await self.asked(question)
            except HistoryError:
                await asyncio.sleep(backoff.next())

    def _failed(self, why: str) -> None:
        self._metrics.failures.inc()
        self._metrics.answers.set(0)
        self.trouble = STORE_AWAY
        if self._answers is not False:
            _log.warning("the history is not recorded; scheduling is not affected", reason=why)
        self._answers = False

    def _works(self) -> None:
        self._metrics.answers.set(1)
        self.trouble = ""
        if self._answers is False:
            _log.info("the history is recorded again")
        self._answers = True


class Writer:
    """Writes one buffer to one store.

    ``looking`` tells whether what goes on is looked at, ``left`` how many seconds there are to end in.
    """

    def __init__(
        self,
        store: Store,
        buffer: Buffer,
        *,
        state: StoreState,
        metrics: InsightMetrics,
        interval: float,
        retention: float,
        looking: Callable[[], bool],
        left: Callable[[], float],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._buffer = buffer
        self._state = state
        self._metrics = metrics
        self._interval = interval
        self._retention = retention
        self._looking = looking
        self._left = left
        self._now = now
        self._seen_at = 0.0
        #: Whether the store turned out to be another one, in which nothing was.
        self._emptied = False

    async def run(self) -> None:
        """Write until cancelled, or until what the buffer had room for is written where it was not all.

        It ends as well where the store turned out to be another one: then what there is has to be told anew.
        What waits at the end is written as the last.
        """
        backoff = Backoff(initial=self._interval, maximum=max(PATIENCE_SECONDS, self._interval))
        try:
            while True:
                written = await self.write()
                if written and (self._buffer.full.is_set() or self._emptied):
                    return
                if written:
                    backoff.reset()
                await asyncio.sleep(self._interval if written else backoff.next())
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LAST_SECONDS, _PART_OF_TERM * self._left())):
                    await self.write()

    async def write(self) -> bool:
        """Write all that waits; whether the store took it."""
        now = self._now()
        batch = self._buffer.take()
        lately = 0 <= now - self._seen_at < SEEN_SECONDS  # the clock may have been put back
        if not batch and (lately or not self._looking()):
            return True
        records = list(batch.values())
        anew = bool(self._state.trouble)

        def add() -> None:
            if anew and self._store.prepare():  # another database than before, without a table
                self._emptied = True
            self._store.add(records, seen=now)

        try:
            await self._state.asked(add)
        except BaseException as error:
            self._buffer.give_back(batch)
            if not isinstance(error, HistoryError):
                raise
            return False
        finally:
            self._metrics.waiting.set(len(self._buffer))
        self._seen_at = now
        self._metrics.wrote(records, seen=now)
        return True

    async def keep_house(self) -> None:
        """Remove what is too old and tell the size, until cancelled."""
        while True:
            try:
                await self._state.asked(lambda: self._store.forget(before=self._now() - self._retention))
                size = await self._state.asked(self._store.size)
            except HistoryError:
                await asyncio.sleep(PATIENCE_SECONDS)
                continue
            self._metrics.size.set(size.size_bytes)
            if size.bytes_per_day is not None:
                self._metrics.growth.set(size.bytes_per_day)
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
