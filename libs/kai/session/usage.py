"""What queues used, in buckets of time, for time-based fair share without a Prometheus.

The queue controller records; the scheduler reads, weighs by age and divides. A bucket holds amount
times seconds, so that buckets add up however they were sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.session.cache import SessionCache

RESOURCES: Final = ("cpu", "memory", "gpu")
BUCKET_SECONDS: Final = 300
_FIELD: Final = re.compile(rb"([0-9]{1,15})/(cpu|memory|gpu)")

#: CPU millicores, memory bytes, GPU devices; here times seconds.
Amounts = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Amounts times seconds from ``start`` (Unix seconds) for :data:`BUCKET_SECONDS`."""

    start: int
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """Buckets by queue, and those of the cluster's capacity, each oldest first."""

    queues: dict[str, tuple[Bucket, ...]]
    capacity: tuple[Bucket, ...]


class UsageRecord:
    """Recorded usage of one shard. Every method may raise ``CacheUnavailable``."""

    def __init__(self, cache: SessionCache) -> None:
        self._cache = cache
        self._redis = cache.connection
        self._keys = cache.keys

    async def add(
        self,
        *,
        at: float,
        seconds: float,
        queues: Mapping[str, Amounts],
        capacity: Amounts,
        keep_seconds: float,
    ) -> None:
        """Add ``seconds`` of use up to Unix time ``at``; a queue unheard of for ``keep_seconds`` goes."""
        start = bucket_start(at)
        async with self._cache.translated("usage"):
            pipe = self._redis.pipeline(transaction=False)
            for queue, amounts in queues.items():
                self._increment(pipe, self._keys.usage(queue), start, seconds, amounts)
                pipe.expire(self._keys.usage(queue), int(keep_seconds) + BUCKET_SECONDS)
            self._increment(pipe, self._keys.capacity, start, seconds, capacity)
            pipe.expire(self._keys.capacity, int(keep_seconds) + BUCKET_SECONDS)
            if queues:
                pipe.sadd(self._keys.usage_queues, *queues)
            await pipe.execute()

    async def trim(self, *, before: float) -> None:
        """Remove buckets that began before a Unix time, and queues that have none left.

        A queue that is used now and then never expires, and nobody may ever read what is recorded.
        """
        first = bucket_start(before)
        async with self._cache.translated("usage"):
            names = sorted(await self._redis.smembers(self._keys.usage_queues))
            for name in names:
                if not await self._trim(self._keys.usage(name.decode(errors="replace")), first):
                    await self._redis.srem(self._keys.usage_queues, name)
            await self._trim(self._keys.capacity, first)

    async def _trim(self, key: str, first: int) -> int:
        """Remove old fields; how many are left."""
        fields = await self._redis.hkeys(key)
        old = [each for each in fields if (match := _FIELD.fullmatch(each)) is None or int(match[1]) < first]
        if old:
            await self._redis.hdel(key, *old)
        return len(fields) - len(old)

    def _increment(self, pipe: Any, key: str, start: int, seconds: float, amounts: Amounts) -> None:
        for resource, amount in zip(RESOURCES, amounts, strict=True):
            if amount:
                pipe.hincrbyfloat(key, f"{start}/{resource}", amount * seconds)

    async def read(self, *, since: float) -> UsageHistory:
        """Buckets that began at ``since`` (Unix seconds) or later.

        Older ones are removed on the way, and so is what cannot be read.
        """
        async with self._cache.translated("usage"):
            members = await self._redis.smembers(self._keys.usage_queues)
            queues = sorted(name.decode(errors="replace") for name in members)
            return UsageHistory(
                queues={queue: await self._buckets(self._keys.usage(queue), since) for queue in queues},
                capacity=await self._buckets(self._keys.capacity, since),
            )

    async def _buckets(self, key: str, since: float) -> tuple[Bucket, ...]:
        sums: dict[int, list[float]] = {}
        old: list[bytes] = []
        for field, value in (await self._redis.hgetall(key)).items():
            found = _entry(field, value)
            if found is None or found[0] < since:
                old.append(field)
            else:
                start, resource, amount = found
                sums.setdefault(start, [0.0, 0.0, 0.0])[resource] = amount
        if old:
            await self._redis.hdel(key, *old)
        return tuple(Bucket(start, (s[0], s[1], s[2])) for start, s in sorted(sums.items()))


def _entry(field: bytes, value: bytes) -> tuple[int, int, float] | None:
    """Start, resource and amount; None for what nobody of us can have written."""
    match = _FIELD.fullmatch(field)
    try:
        amount = float(value)
    except ValueError:
        return None
    if match is None or not (math.isfinite(amount) and amount >= 0):
        return None
    return int(match[1]), RESOURCES.index(match[2].decode()), amount


def bucket_start(at: float) -> int:
    """The start of the bucket that a Unix time falls into."""
    return int(at // BUCKET_SECONDS) * BUCKET_SECONDS
