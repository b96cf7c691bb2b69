"""The division of resources among queues, and what is divided, as each shard's scheduler found it last."""

from __future__ import annotations

from kai.model.decisions import QueueShare, ResourceVector
from kai.wire.sessions import SessionUpdate


class ShareBook:
    """The newest shares of each shard. An update without shares changes nothing."""

    def __init__(self) -> None:
        self._shares: dict[str, tuple[QueueShare, ...]] = {}
        self._capacity: dict[str, ResourceVector | None] = {}

    def take(self, shard: str, update: SessionUpdate) -> None:
        """Take in an update of a shard's scheduler."""
        if update.shares or update.full:
            self._shares[shard] = update.shares
        if update.capacity is not None or update.full:
            self._capacity[shard] = update.capacity

    def of(self, shard: str) -> tuple[QueueShare, ...]:
        """The shares of one shard."""
        return self._shares.get(shard, ())

    def capacity(self, shard: str) -> ResourceVector | None:
        """What the queues of one shard share out: millicores, bytes, devices; None while nobody has told."""
        return self._capacity.get(shard)
