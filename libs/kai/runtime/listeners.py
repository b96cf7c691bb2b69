"""Settings of services that listen to schedulers."""

from __future__ import annotations

from pydantic import Field

from kai.runtime.tls import TlsSettings
from kai.wire.shards import Shard, shard_of


class ListenerSettings(TlsSettings):
    """Which schedulers there are, and how to talk to them."""

    partitions: str = Field(
        "",
        description="node pools with a scheduler of their own, separated by commas, beside those of "
        "SchedulingShards; empty: what belongs to none",
    )

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The schedulers that these are."""
        partitions = {part.strip() for part in self.partitions.split(",")}
        return tuple(shard_of(self.scheduler_name, part) for part in sorted(partitions))
