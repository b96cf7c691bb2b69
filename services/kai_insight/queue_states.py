"""What queues hold and are due, now and then: only what has changed, and everything once an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kai.history.records import QueueState
from kai.model.decisions import CPU, GPU, MEMORY, QueueShare
from kai.wire.sessions import SessionUpdate

#: Whoever looks back for the last word about a queue need not look further.
WHOLE_SECONDS: Final = 3600.0


class QueueSampler:
    """Samples on a grid of times, so that one who comes back within a step replaces the row of before."""

    def __init__(
        self, *, interval: float, put: Callable[[QueueState], None], now: Callable[[], float]
    ) -> None:
        self._interval = interval
        self._put = put
        self._now = now
        self._shares: dict[str, tuple[QueueShare, ...]] = {}
        self._written: dict[tuple[str, str], QueueState] = {}
        self._whole_at = 0.0

    def take(self, shard: str, update: SessionUpdate) -> None:
        """Take in what the scheduler of a shard publishes; without shares nothing has changed.

        The first session of a leader tells of everything, as a full one does.
        """
        if update.shares or update.full or update.version == 1:
            self._shares[shard] = update.shares

    def gone(self, shard: str) -> None:
        """The scheduler of a shard is there no more."""
        self._shares.pop(shard, None)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            now = self._now()
            await asyncio.sleep(self._interval - now % self._interval)
            self.sample()

    def sample(self) -> None:
        """Record what differs from the last record, for the time on the grid that was reached last."""
        at = self._now() // self._interval * self._interval
        if not 0 <= at - self._whole_at < WHOLE_SECONDS:  # the clock may have been put back
            self._written, self._whole_at = {}, at
        for shard, shares in self._shares.items():
            for share in shares:
                state = _state(shard, share, at)
                known = self._written.get((shard, share.queue))
                if known is None or replace(known, at=at) != state:
                    self._written[shard, share.queue] = state
                    self._put(state)


def _state(shard: str, share: QueueShare, at: float) -> QueueState:
    return QueueState(
        queue=share.queue,
        shard=shard,
        at=at,
        parent=share.parent,
        quota_gpus=share.deserved[GPU],
        limit_gpus=share.limit[GPU],
        fair_share_gpus=share.fair_share[GPU],
        allocated_gpus=share.allocated[GPU],
        requested_gpus=share.requested[GPU],
        allocated_cpu_millis=share.allocated[CPU],
        allocated_memory_bytes=share.allocated[MEMORY],
    )
