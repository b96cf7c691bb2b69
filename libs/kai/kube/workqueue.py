"""Work that is asked for by key, done once however often it was asked for, and tried again on failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog
from prometheus_client import CollectorRegistry

from kai.kube.backoff import Backoff
from kai.kube.errors import KubeError
from kai.kube.workqueue_metrics import QueueMetrics, WorkResult

__all__ = ["QueueMetrics", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger(__name__)


class WorkQueue(Generic[K]):
    """Keys to be worked on by up to ``workers`` handlers at once.

    A key that is added while it waits is worked on once; added while it is worked on, once more
    afterwards; never by two workers at a time. A handler that fails gets its key back after 1 s,
    2 s, ... 60 s. Memory is bounded by the number of distinct keys.
    """

    def __init__(
        self,
        name: str,
        *,
        metrics: QueueMetrics | None = None,
        initial_backoff: float = 1.0,
        maximum_backoff: float = 60.0,
    ) -> None:
        self.name = name
        self._backoff_limits = (initial_backoff, maximum_backoff)
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        #: Keys that are worked on, and since when.
        self._running: dict[K, float] = {}
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._backoffs: dict[K, Backoff] = {}
        #: Since when keys wait that were added.
        self._since: dict[K, float] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._series = (metrics or QueueMetrics(CollectorRegistry())).of(name, running=self._running_seconds)

    def __len__(self) -> int:
        """Keys that wait for a worker, now or later."""
        return len(self._waiting) + len(self._timers) + len(self._again)

    def add(self, key: K) -> None:
        """Have ``key`` worked on as soon as a worker is free."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key not in self._since:
            self._since[key] = time.monotonic()
            self._series.adds.inc()
        if key in self._running:
            self._again.add(key)
        else:
            self._wait(key)
        self._idle.clear()

    def add_after(self, key: K, seconds: float) -> None:
        """Have ``key`` worked on in ``seconds``, or earlier if it is due earlier anyway."""
        if key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)
        self._idle.clear()

    async def run(self, handler: Callable[[K], Awaitable[float | None]], *, workers: int = 10) -> None:
        """Work until cancelled. A handler may return seconds after which it wants to see its key again.

        What was not done when it is cancelled waits for the next run: who loses a Lease may win it again.
        """
        self._series.controller.workers.set(workers)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(handler))
        finally:
            for key in tuple(self._timers):
                self.add(key)

    async def join(self) -> None:
        """Wait until no key waits or is worked on."""
        await self._idle.wait()

    def _wait(self, key: K) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)
            self._series.depth.set(len(self._waiting))

    def _running_seconds(self) -> list[float]:
        now = time.monotonic()
        return [now - since for since in self._running.values()]

    async def _work(self, handler: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            began = self._running[key] = time.monotonic()
            self._series.depth.set(len(self._waiting))
            self._series.waited.observe(began - self._since.pop(key))
            try:
                with self._series.controller.working():
                    await self._handle(key, handler)
            except asyncio.CancelledError:
                self._again.add(key)
                raise
            finally:
                self._running.pop(key, None)
                self._series.worked.observe(time.monotonic() - began)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
            if not (len(self) or self._running):
                self._idle.set()

    async def _handle(self, key: K, handler: Callable[[K], Awaitable[float | None]]) -> None:
        try:
            again = await handler(key)
        except KubeError as error:
            delay = self._failed(key)
            _log.warning("work failed", queue=self.name, key=str(key), error=str(error), retry_seconds=delay)
        except Exception:  # noqa: BLE001 (one bad object must not stop the others)
            delay = self._failed(key)
            _log.exception("work failed", queue=self.name, key=str(key), retry_seconds=delay)
        else:
            self._backoffs.pop(key, None)
            self._series.controller.ended(WorkResult.SUCCESS if again is None else WorkResult.AGAIN)
            if again is not None:
                self._running.pop(key, None)
                self.add_after(key, again)

    def _failed(self, key: K) -> float:
        self._series.controller.ended(WorkResult.ERROR)
        self._series.retries.inc()
        initial, maximum = self._backoff_limits
        backoff = self._backoffs.setdefault(key, Backoff(initial=initial, maximum=maximum))
        delay = backoff.next()
        self.add_after(key, delay)
        return round(delay, 2)
