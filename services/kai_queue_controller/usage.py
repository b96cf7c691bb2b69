"""Samples of what queues use, kept in Redis for time-based fair share.

Use and capacity are what the scheduler says in one breath, so that past use is a part of what it divides:
that of ready nodes, MIG devices and GPUs of resource claims included, less what pods of other schedulers
hold. While none has said, nothing is recorded: unknown is not unused.

Without Redis nothing is kept and nothing else is different; when it comes back sampling goes on.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.model.decisions import QueueShare, ResourceVector
from kai.session.cache import SessionCache
from kai.session.errors import CacheUnavailable
from kai.session.usage import UsageRecord

_log = structlog.get_logger(__name__)
_NOTHING: ResourceVector = (0.0, 0.0, 0.0)
#: How often what is too old is removed.
TRIM_SECONDS: Final = 3600.0


class UsageSampler:
    """Samples the allocation of one shard's queues."""

    def __init__(
        self,
        cache: SessionCache,
        *,
        shares: Callable[[], Iterable[QueueShare]],
        capacity: Callable[[], ResourceVector | None],
        interval: float,
        retention: float,
        failures: Counter,
        clock: Callable[[], float] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._record = UsageRecord(cache)
        self._shares = shares
        self._capacity = capacity
        self._interval = interval
        self._retention = retention
        self._failures = failures
        self._clock = clock or asyncio.get_running_loop().time
        self._now = now
        self._available = True
        self._trimmed_at = -math.inf

    async def run(self) -> None:
        """Sample until cancelled."""
        sampled_at = self._clock()
        while True:
            await asyncio.sleep(self._interval)
            now = self._clock()
            # A process that was stopped for a while must not claim to know that time.
            await self.sample(min(now - sampled_at, 2 * self._interval))
            sampled_at = now

    async def sample(self, seconds: float) -> None:
        """Record that the last ``seconds`` were as it is now; nothing while no scheduler has told."""
        capacity = self._capacity()
        if capacity is None:
            return
        queues: Mapping[str, ResourceVector] = {
            share.queue: share.allocated for share in self._shares() if share.allocated != _NOTHING
        }
        try:
            await self._record.add(
                at=self._now(),
                seconds=seconds,
                queues=queues,
                capacity=capacity,
                keep_seconds=self._retention,
            )
            await self._trim()
        except CacheUnavailable as error:
            self._failures.inc()
            if self._available:
                _log.warning("usage is not recorded", error=str(error))
            self._available = False
        else:
            if not self._available:
                _log.info("usage is recorded again")
            self._available = True

    async def _trim(self) -> None:
        now = self._now()
        if now - self._trimmed_at >= TRIM_SECONDS:
            await self._record.trim(before=now - self._retention)
            self._trimmed_at = now


def failure_counter(registry: CollectorRegistry) -> Counter:
    """Counts samples that were lost."""
    return Counter("kai_usage_samples_lost", "Samples of usage that Redis did not take", registry=registry)
