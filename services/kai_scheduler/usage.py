"""Past use of queues, for time-based fair share: read in the background, and used as last known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from prometheus_client import Counter, Histogram

from kai.config.usage_params import UsageParams
from kai.engine.usage.window import outlived, staleness
from kai.kube.backoff import Backoff
from kai.model.decisions import ResourceVector
from kai_scheduler.troubles import Troubles
from kai_scheduler.usage_sources import UsageSource, UsageUnavailable

#: A read that failed is tried again after this, and after twice as long each time, up to the interval.
FIRST_RETRY_SECONDS: Final = 1.0
#: A queue's use that changed by less than this part of the cluster is no reason for a cycle.
WORTH_A_CYCLE: Final = 0.001
_UNUSED: Final = (0.0, 0.0, 0.0)
_NOTES_SHOWN: Final = 3

_log = structlog.get_logger(__name__)


class UsageReader:
    """Keeps what queues used. ``clock`` gives Unix seconds."""

    def __init__(
        self,
        source: UsageSource,
        params: UsageParams,
        *,
        latency: Histogram,
        failures: Counter,
        troubles: Troubles,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``changed`` is called whenever the shares have, by as much as matters."""
        #: By queue: part of the cluster's CPU, memory and GPUs that it used.
        self.shares: dict[str, ResourceVector] = {}
        #: Those that were the reason for a cycle last.
        self._told: dict[str, ResourceVector] = {}
        self._source = source
        self._params = params
        self._latency = latency
        self._failures = failures
        self._troubles = troubles
        self._changed = changed
        self._clock = clock
        self._backoff = Backoff(initial=FIRST_RETRY_SECONDS, maximum=params.fetch_interval)
        self._read_at: float | None = None
        self._first = asyncio.Event()
        #: Why the last read failed; empty if it did not.
        self._failure = ""
        self._stale: str | None = None
        self._notes: tuple[str, ...] = ()

    async def run(self) -> None:
        """Read now and then, until cancelled."""
        while True:
            pause = await self._attempt()
            await asyncio.sleep(pause)

    async def first(self) -> None:
        """Return when something was read, or waiting for it has taken as long as it may (``waitTimeout``)."""
        try:
            async with asyncio.timeout(self._params.wait_timeout):
                await self._first.wait()
        except TimeoutError:
            _log.warning(
                "no usage data in time; deciding all the same", reason=self._failure or "not read yet"
            )

    def note(self) -> str | None:
        """What people should know about the data, in a line; None if all is well."""
        parts = [part for part in (self._failure, self._stale, *self._notes[:_NOTES_SHOWN]) if part]
        return "; ".join(parts) or None

    async def _attempt(self) -> float:
        """Read once, whatever comes of it; returns the seconds until the next time."""
        try:
            await self.read()
        except UsageUnavailable as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 (whatever somebody wrote there, deciding goes on)
            self._troubles.note("usage", error)
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._backoff.reset()
            self._succeeded()
            return self._params.fetch_interval
        self._age()
        return self._backoff.next()

    async def read(self) -> None:
        """Read once.

        Raises:
            UsageUnavailable: the source cannot say; what is known stays as it was.
        """
        now, started = self._clock(), time.perf_counter()
        found = await self._source.read(now=now)
        self._latency.observe((time.perf_counter() - started) * 1000)
        self._read_at = now
        self._take(found.by_queue)
        if found.notes and found.notes != self._notes:
            _log.warning("part of the usage data does not count", parts=found.notes[:_NOTES_SHOWN])
        self._notes = found.notes
        self._first.set()

    def _failed(self, reason: str) -> None:
        """Say it once for each new reason, not with every attempt."""
        self._failures.inc()
        if reason != self._failure:
            _log.warning("usage cannot be read", reason=reason)
        self._failure = reason

    def _succeeded(self) -> None:
        if self._failure:
            _log.info("usage is read again")
        self._failure, self._stale = "", None

    def _age(self) -> None:
        """Tell that the data is out of date, and drop it when it says nothing any more."""
        now = self._clock()
        stale = staleness(self._params, fetched_at=self._read_at, now=now)
        if stale is not None and self._stale is None:
            _log.warning("usage is out of date", reason=stale)
        self._stale = stale
        if self._read_at is not None and outlived(self._params, fetched_at=self._read_at, now=now):
            self._take({})

    def _take(self, shares: dict[str, ResourceVector]) -> None:
        self.shares = shares
        if _differ(shares, self._told):
            self._told = shares
            self._changed()


def _differ(one: Mapping[str, ResourceVector], other: Mapping[str, ResourceVector]) -> bool:
    return any(
        abs(ours - theirs) >= WORTH_A_CYCLE
        for queue in one.keys() | other.keys()
        for ours, theirs in zip(one.get(queue, _UNUSED), other.get(queue, _UNUSED), strict=True)
    )
