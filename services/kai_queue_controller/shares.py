"""The division of resources among queues, as each shard's scheduler found it last."""

from __future__ import annotations

from kai.model.decisions import QueueShare
from kai.wire.sessions import SessionUpdate


class ShareBook:
    """The newest shares of each shard. An update without shares changes nothing."""

    def __init__(self) -> None:
        self._shares: dict[str, tuple[QueueShare, ...]] = {}

    def take(self, shard: str, update: SessionUpdate) -> None:
        """Take in an update of a shard's scheduler."""
        if update.shares or update.full:
            self._shares[shard] = update.shares

    def of(self, shard: str) -> tuple[QueueShare, ...]:
        """The shares of one shard."""
        return self._shares.get(shard, ())
