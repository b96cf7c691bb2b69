"""What queues used, in buckets of time, for time-based fair share without a Prometheus.

The queue controller records; the scheduler reads (:mod:`kai.session.usage_history`), weighs by age and
divides. A bucket holds amount times seconds, so that buckets add up however they were sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kai.model.decisions import ResourceVector
from kai.session.cache import SessionCache

RESOURCES: Final = ("cpu", "memory", "gpu")
BUCKET_SECONDS: Final = 300
#: What a field of a hash is called: start of the bucket, and resource.
FIELD: Final = re.compile(rb"([0-9]{1,15})/(cpu|memory|gpu)")


class UsageRecord:
    """Records the usage of one shard. Every method may raise ``CacheUnavailable``."""

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
                each for each in fields if (match := FIELD.fullmatch(each)) is None or int(match[1]) < first
            ]
            if old:
                await self._redis.hdel(key, *old)
        return len(fields) - len(old)

    def _increment(self, pipe: Any, key: str, start: int, seconds: float, amounts: ResourceVector) -> None:
        for resource, amount in zip(RESOURCES, amounts, strict=True):
            if amount:
                pipe.hincrbyfloat(key, f"{start}/{resource}", amount * seconds)


def bucket_start(at: float) -> int:
    """The start of the bucket that a Unix time falls into."""
    return int(at // BUCKET_SECONDS) * BUCKET_SECONDS
