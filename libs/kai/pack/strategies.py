"""Placement strategies, each a score of nodes for a shape; the first of the best wins, by name.

``binpack`` and ``spread`` follow the original's node and device order with both CPU and GPU placement set so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np

from kai.engine.packing import FreeNodes, Headroom, Shape, Workload
from kai.engine.packing.headroom import TINY
from kai.model.arrays import Floats, Ints, Mask

_JOINS_SHARED: Final = 10_000.0


class Strategy(Protocol):
    """Scores from what is free; a new workload makes earlier scores void."""

    def learn(self, arrived: Mapping[Shape, float]) -> None:
        """Hear what has arrived so far."""

    def score(self, free: FreeNodes, capacity: FreeNodes, shape: Shape) -> tuple[Floats, Ints]:
        """Scores (-inf where the shape does not fit), and the shared device to use or -1 for a whole one.

        ``capacity`` are the same rows of the empty cluster.
        """


class HeadroomStrategy:
    """Keep what the pods seen so far could still use."""

    def __init__(self, capacity: Floats) -> None:
        self._capacity = capacity
        self._headroom = Headroom(Workload.of({}, capacity=capacity))

    def learn(self, arrived: Mapping[Shape, float]) -> None:
        """Expect more of what has arrived."""
        self._headroom = Headroom(Workload.of(arrived, capacity=self._capacity))

    def score(self, free: FreeNodes, capacity: FreeNodes, shape: Shape) -> tuple[Floats, Ints]:
        """See :class:`Strategy`."""
        return self._headroom.score(free, shape)


class Binpack:
    """The fewest whole GPUs left (pods without: the least CPU left); parts join devices in use first."""

    def learn(self, arrived: Mapping[Shape, float]) -> None:
        """Nothing to learn."""

    def score(self, free: FreeNodes, capacity: FreeNodes, shape: Shape) -> tuple[Floats, Ints]:
        """See :class:`Strategy`."""
        fits, device = _fit(free, shape, fullest_first=True)
        if shape.devices:
            score = _JOINS_SHARED * (device >= 0) - free.whole
        else:
            # The original takes any device in use for a match of a pod that asks for none.
            score = _JOINS_SHARED * (free.shared > TINY).any(axis=1) - free.cpu_millis * 1e-6
        return np.where(fits, score, -np.inf), device


class Spread:
    """The largest part of GPUs free (pods without: of CPU); parts open whole devices first."""

    def learn(self, arrived: Mapping[Shape, float]) -> None:
        """Nothing to learn."""

    def score(self, free: FreeNodes, capacity: FreeNodes, shape: Shape) -> tuple[Floats, Ints]:
        """See :class:`Strategy`."""
        fits, device = _fit(free, shape, fullest_first=False)
        have, most = (free.whole, capacity.whole) if shape.devices else (free.cpu_millis, capacity.cpu_millis)
        return np.where(fits, have / np.maximum(most, 1.0), -np.inf), device


def _fit(free: FreeNodes, shape: Shape, *, fullest_first: bool) -> tuple[Mask, Ints]:
    """Where a shape fits, and the device that it would use."""
    fits = (free.cpu_millis >= shape.cpu_millis) & (free.memory_bytes >= shape.memory_bytes)
    whole = np.full(len(fits), -1, dtype=np.int64)
    if not shape.is_shared:
        return fits & (free.whole >= shape.devices), whole
    room = free.shared >= shape.portion - TINY
    if shape.devices > 1:
        return fits & (free.whole + room.sum(axis=1) >= shape.devices), whole
    if fullest_first:
        joins = np.where(room, free.shared, np.inf).argmin(axis=1)
        device = np.where(room.any(axis=1), joins, -1)
    else:
        joins = np.where(room, free.shared, -np.inf).argmax(axis=1)
        device = np.where(free.whole >= 1, -1, joins)
    return fits & ((free.whole >= 1) | room.any(axis=1)), device


def make(name: str, *, capacity: Floats) -> Strategy:
    """A strategy by its name in :data:`NAMES`; ``capacity`` are the GPUs of each group of nodes."""
    if name == "headroom":
        return HeadroomStrategy(capacity)
    return Binpack() if name == "binpack" else Spread()


NAMES: Final = {
    "binpack": "fewest whole GPUs left, parts join devices in use (the default of the scheduler)",
    "spread": "largest part of GPUs and CPU free",
    "headroom": "takes least from what pods like those seen so far could still use",
}
