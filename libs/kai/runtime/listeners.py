"""Settings of services that listen to schedulers."""

from __future__ import annotations

from pydantic import Field

from kai.model import names
from kai.runtime.tls import TlsSettings


class ListenerSettings(TlsSettings):
    """Which schedulers there are, and how to talk to them."""

    partitions: str = Field(
        "",
        description="node pools with a scheduler of their own, separated by commas; empty: the default one",
    )

    @property
    def leases(self) -> dict[str, str]:
        """The Lease of each shard's scheduler, by shard."""
        partitions = {part.strip() for part in self.partitions.split(",")}
        return {
            part or names.DEFAULT_SHARD: f"{self.scheduler_name}-{part}" if part else self.scheduler_name
            for part in sorted(partitions)
        }
