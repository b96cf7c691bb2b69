"""Reading what queues used (:mod:`kai.session.usage`), as columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kai.model.arrays import Floats
from kai.session.cache import SessionCache
from kai.session.usage import FIELD, RESOURCES


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


class UsageBuckets:
    """The recorded usage of one shard, to be read. Every method may raise ``CacheUnavailable``."""

    def __init__(self, cache: SessionCache) -> None:
        self._cache = cache
        self._redis = cache.connection
        self._keys = cache.keys

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
    match = FIELD.fullmatch(field)
    try:
        amount = float(value)
    except ValueError:
        return None
    if match is None or not (math.isfinite(amount) and amount >= 0):
        return None
    return int(match[1]), RESOURCES.index(match[2].decode()), amount
