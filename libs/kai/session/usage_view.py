"""Recorded usage, read bit by bit: a week of many queues is long, and of it only the end is new."""

from __future__ import annotations

import math
from typing import Final

from kai.session.usage import BUCKET_SECONDS, bucket_start
from kai.session.usage_history import Series, UsageBuckets, UsageHistory

#: A bucket that was over for so long when it was read does not change any more, whatever clocks say.
SETTLED_SECONDS: Final = 2 * BUCKET_SECONDS


class UsageView:
    """What is recorded of one shard. What Redis loses stays known for as long as anybody asks for it."""

    def __init__(self, buckets: UsageBuckets) -> None:
        self._buckets = buckets
        self._known: UsageHistory | None = None
        #: Before this nothing changes any more, of what is known.
        self._settled = 0
        #: When it was read last.
        self._read_at = float("-inf")

    async def read(self, *, since: float, now: float) -> UsageHistory:
        """Buckets that began at ``since`` or later; times are Unix seconds.

        A clock that was ahead has made us forget what was not too old yet: then all of it is read again.

        Raises:
            CacheUnavailable: Redis is away; what is known stays as it was.
        """
        if self._known is None or now < self._read_at - SETTLED_SECONDS:
            known = await self._buckets.read(since=since)
        else:
            known = await self._continued(self._known, since=since, now=now)
        self._known, self._settled, self._read_at = known, bucket_start(now - SETTLED_SECONDS), now
        return known

    async def _continued(self, known: UsageHistory, *, since: float, now: float) -> UsageHistory:
        """The same with what is new, and without what is too old."""
        buckets, recorded = self._buckets, set(await self._buckets.queues())
        # Clocks of others may be ahead of ours.
        starts = range(self._settled, bucket_start(now + SETTLED_SECONDS) + 1, BUCKET_SECONDS)
        keys = [buckets.capacity_key, *map(buckets.key_of, known.queues)]
        new_capacity, *new = await buckets.some_of(keys, starts)
        queues = {
            queue: self._joined(series, later, since)
            for (queue, series), later in zip(known.queues.items(), new, strict=True)
        }
        for queue in sorted(recorded - queues.keys()):
            queues[queue] = await buckets.all_of(buckets.key_of(queue), since=since)
        return UsageHistory(
            queues={queue: each for queue, each in queues.items() if len(each.start) or queue in recorded},
            capacity=self._joined(known.capacity, new_capacity, since),
        )

    def _joined(self, known: Series, later: Series, since: float) -> Series:
        return known.between(since, self._settled).followed_by(later.between(since, math.inf))
