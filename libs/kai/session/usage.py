"""What queues used, in buckets of time, for time-based fair share without a Prometheus.

The queue controller records; the scheduler reads, weighs by age and divides. A bucket holds amount
times seconds, so that buckets add up however they were sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kai.model.arrays import Floats
from kai.model.decisions import ResourceVector
from kai.session.cache import SessionCache

RESOURCES: Final = ("cpu", "memory", "gpu")
BUCKET_SECONDS: Final = 300
_FIELD: Final = re.compile(rb"([0-9]{1,15})/(cpu|memory|gpu)")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Buckets, oldest first: :data:`BUCKET_SECONDS` each, from ``start`` (Unix seconds) on."""

    start: Floats  # [buckets]
    amounts: Floats  # [buckets, 3] amounts times seconds

    @classmethod
    def of(cls, sums: Mapping[int, Sequence[float]]) -> Series:
        """Amounts by start, in whatever order."""
        starts = sorted(sums)
        amounts = np.array([sums[start] for start in starts], dtype=np.float64)
        return cls(np.array(starts, dtype=np.float64), amounts.reshape(-1, len(RESOURCES)))

    def between(self, first: float, end: float) -> Series:
        """The buckets that begin at ``first`` or later, and before ``end``."""
        chosen = (self.start >= first) & (self.start < end)
        return Series(self.start[chosen], self.amounts[chosen])

    def followed_by(self, later: Series) -> Series:
        """These, and those of a later time."""
        return Series(
            np.concatenate([self.start, later.start]), np.concatenate([self.amounts, later.amounts])
        )


@dataclass(frozen=True, slots=True, eq=False)
class UsageHistory:
    """Use by queue, and the cluster's capacity."""

    queues: dict[str, Series]
    capacity: Series


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
        queues: Mapping[str, ResourceVector],
        capacity: ResourceVector,
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
                async with self._cache.translated("usage"):
                    await self._redis.srem(self._keys.usage_queues, name)
        await self._trim(self._keys.capacity, first)

    async def _trim(self, key: str, first: int) -> int:
        """Remove old fields; how many are left."""
        async with self._cache.translated("usage"):
            fields = await self._redis.hkeys(key)
            old = [
                each for each in fields if (match := _FIELD.fullmatch(each)) is None or int(match[1]) < first
            ]
            if old:
                await self._redis.hdel(key, *old)
        return len(fields) - len(old)

    def _increment(self, pipe: Any, key: str, start: int, seconds: float, amounts: ResourceVector) -> None:
        for resource, amount in zip(RESOURCES, amounts, strict=True):
            if amount:
                pipe.hincrbyfloat(key, f"{start}/{resource}", amount * seconds)

    async def read(self, *, since: float) -> UsageHistory:
        """Buckets that began at ``since`` (Unix seconds) or later.

        What cannot be read is removed on the way.
        """
        queues = await self.queues()
        return UsageHistory(
            queues={queue: await self.all_of(self.key_of(queue), since=since) for queue in queues},
            capacity=await self.all_of(self.capacity_key, since=since),
        )

    async def queues(self) -> list[str]:
        """Those of which something is recorded."""
        async with self._cache.translated("usage"):
            members = await self._redis.smembers(self._keys.usage_queues)
        return sorted(name.decode(errors="replace") for name in members)

    def key_of(self, queue: str) -> str:
        """Where the use of a queue is."""
        return self._keys.usage(queue)

    @property
    def capacity_key(self) -> str:
        """Where the capacity is."""
        return self._keys.capacity

    async def all_of(self, key: str, *, since: float) -> Series:
        """The buckets of a key that began at ``since`` or later; what cannot be read is removed."""
        async with self._cache.translated("usage"):
            fields = await self._redis.hgetall(key)
            found = [(field, _entry(field, value)) for field, value in fields.items()]
            if odd := [field for field, entry in found if entry is None]:
                await self._redis.hdel(key, *odd)
        return _series(entry for _, entry in found if entry is not None and entry[0] >= since)

    async def some_of(self, keys: Sequence[str], starts: Sequence[int]) -> list[Series]:
        """The buckets of each key that began at these times, in order."""
        fields = [f"{start}/{resource}" for start in starts for resource in RESOURCES]
        if not (keys and fields):
            return [_series(()) for _ in keys]
        async with self._cache.translated("usage"):
            pipe = self._redis.pipeline(transaction=False)
            for key in keys:
                pipe.hmget(key, fields)
            rows = await pipe.execute()
        return [
            _series(
                entry
                for field, value in zip(fields, row, strict=True)
                if value is not None and (entry := _entry(field.encode(), value)) is not None
            )
            for row in rows
        ]


def _series(entries: Iterable[tuple[int, int, float]]) -> Series:
    sums: dict[int, list[float]] = {}
    for start, resource, amount in entries:
        sums.setdefault(start, [0.0, 0.0, 0.0])[resource] = amount
    return Series.of(sums)


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
