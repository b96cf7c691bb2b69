"""Snapshots for others, cut only when somebody asks."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kai.model.faults import Fault
from kai.replay import remainder
from kai.replay.circumstances import Circumstances, encode
from kai.snapshot import codec
from kai.snapshot.state import ClusterState
from kai_scheduler.core import Core, Decider

KEPT: Final = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An encoded snapshot."""

    version: int
    digest: str
    data: bytes
    #: In which it was cut (:mod:`kai.replay.circumstances`).
    circumstances: bytes


class Snapshots:
    """Cuts the state and remembers the last cuts."""

    def __init__(self, core: Core, *, clock: Callable[[], float] = time.time) -> None:
        self._core = core
        self._clock = clock
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()

    @property
    def newest(self) -> Snapshot | None:
        """The last one that was cut."""
        return next(reversed(self._kept.values()), None)

    async def get(self, version: int = 0) -> Snapshot | None:
        """The newest snapshot (0), or an earlier one if it is kept."""
        if version:
            return self._kept.get(version)
        now, engine = self._clock(), self._core.engine
        snapshot = await self._core.question(lambda state: _cut(state, engine, now))
        self._kept[snapshot.version] = snapshot
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return snapshot


def _cut(state: ClusterState, engine: Decider, now: float) -> Snapshot:
    cut = codec.cut(state)
    circumstances = Circumstances(
        now=now,
        config=engine.config,
        usage=engine.last_usage,
        faults=(*state.faults.values(), *_set_aside(state), *state.overruled.values()),
        remainder=remainder.take(state, engine.turns),
    )
    return Snapshot(cut.version, cut.digest, codec.encode(cut), encode(circumstances, state.params))


def _set_aside(state: ClusterState) -> list[Fault]:
    return [job.aside for job in state.jobs.values() if job.aside is not None]
