"""Snapshots for others, cut only when somebody asks."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from kai.snapshot import codec
from kai.snapshot.state import ClusterState
from kai_scheduler.core import Core

KEPT: Final = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An encoded snapshot."""

    version: int
    digest: str
    data: bytes


class Snapshots:
    """Cuts the state and remembers the last cuts."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()

    @property
    def newest(self) -> Snapshot | None:
        """The last one that was cut."""
        return next(reversed(self._kept.values()), None)

    async def get(self, version: int = 0) -> Snapshot | None:
        """The newest snapshot (0), or an earlier one if it is kept."""
        if version:
            return self._kept.get(version)
        snapshot = await self._core.question(_cut)
        self._kept[snapshot.version] = snapshot
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return snapshot


def _cut(state: ClusterState) -> Snapshot:
    cut = codec.cut(state)
    return Snapshot(cut.version, cut.digest, codec.encode(cut))
