"""Key names: ``kai:{<shard>}:…``. The braces keep all keys of a shard in one slot of a Redis cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one shard: a scheduler with its node pool."""

    #: Named as the pool is; ``default`` where that is of nodes without a pool's label.
    shard: str

    @property
    def prefix(self) -> str:
        """What all keys of the shard begin with."""
        return f"kai:{{{self.shard}}}:"

    @property
    def head(self) -> str:
        """Hash: ``version``, ``epoch``, ``digest``, and ``snapshot`` (newest version with a blob)."""
        return f"{self.prefix}head"

    @property
    def sessions(self) -> str:
        """Stream: ``version``, ``epoch``, ``update`` and ``decisions`` (messages of kai.wire.v1)."""
        return f"{self.prefix}sessions"

    @property
    def inflight(self) -> str:
        """Hash: decision id to JSON of a decision that was given out and is not settled."""
        return f"{self.prefix}inflight"

    @property
    def snapshots(self) -> str:
        """List: versions that have a blob, newest first."""
        return f"{self.prefix}snaps"

    def snapshot(self, version: int) -> str:
        """String: an encoded snapshot."""
        return f"{self.prefix}snap:{version}"

    def usage(self, queue: str) -> str:
        """Hash: ``<bucket start>/<resource>`` to amount times seconds."""
        return f"{self.prefix}usage:{queue}"

    @property
    def usage_queues(self) -> str:
        """Set: the queues that have usage."""
        return f"{self.prefix}usage-queues"

    @property
    def capacity(self) -> str:
        """Hash like :meth:`usage`, for what the cluster had to give."""
        return f"{self.prefix}capacity"
