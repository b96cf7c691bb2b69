"""The worth of nodes to a workload, and what a placement takes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.packing.free import FreeNodes
from kai.engine.packing.parts import SAVED, STEP_ROUNDING, STEPS
from kai.engine.packing.workload import Request, Workload
from kai.model.arrays import Floats, Ints, Mask

#: A part of a device that is smaller is rounding.
TINY: Final = 1e-6


class Headroom:
    """Scores for one workload; ``compile_`` False insists on numpy."""

    def __init__(self, workload: Workload, *, compile_: bool = True) -> None:
        self.workload = workload
        self._losses = _fastest() if compile_ else losses

    def score(self, free: FreeNodes, request: Request) -> tuple[Floats, Ints]:
        """How well each node suits the request, and which of its shared devices suits it best.

        Returns:
            Scores up to ``Weight.HEADROOM``, -inf where the request does not fit; and columns of
            ``free.shared``, -1 for a whole device. A request for parts of several devices joins the fullest
            devices that have room.
        """
        loss, device = self.loss(free, request)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(loss), -np.inf, Weight.HEADROOM / (1.0 + np.maximum(loss, 0.0))), device

    def loss(self, free: FreeNodes, request: Request) -> tuple[Floats, Ints]:
        """The worth that each node would lose, in devices; inf where the request does not fit.

        ``[nodes]``, and ``[nodes]`` columns of ``free.shared`` as in :meth:`score`. ``free`` stays as it is.
        """
        return self._losses(free, request, self.workload)


@cache
def _fastest() -> Callable[[FreeNodes, Request, Workload], tuple[Floats, Ints]]:
    """The compiled rule where there is a compiler; it is only loaded where the strategy is on."""
    try:
        from kai.engine.packing import compiled
    except ImportError:
        return losses
    return compiled.losses


def worth(free: FreeNodes, workload: Workload) -> Floats:
    """What the workload could still use of each node's free GPUs, in devices.

    For each shape that is the geometric mean of what is free and of what pods of this shape alone would fill
    (a part of a pod included), weighted by the shape's frequency. The mean makes the last bit that a shape
    can use dearer than the first bit of plenty.

    What free parts save of devices, and whole ones, are added to that, as many as the node has CPU and memory
    for: a device is rather opened than a hole filled badly that another pod fills well.
    """
    total = free.whole + free.shared.sum(axis=1)
    whole = free.whole[:, None]
    is_shared = workload.portion < 1.0
    per_device = np.floor(1.0 / workload.portion + TINY)
    parts = np.floor(free.shared[:, None, :] / workload.portion[None, :, None] + TINY).sum(axis=2)
    slots = np.where(
        is_shared,
        np.floor((whole * per_device + parts) / workload.devices),
        np.floor(whole / workload.devices),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        by_cpu = np.where(workload.cpu_millis > 0, free.cpu_millis[:, None] / workload.cpu_millis, np.inf)
        by_memory = np.where(
            workload.memory_bytes > 0, free.memory_bytes[:, None] / workload.memory_bytes, np.inf
        )
        pods = np.maximum(np.minimum(slots, np.minimum(by_cpu, by_memory)), 0.0)
    usable = pods * workload.devices * workload.portion
    value: Floats = (workload.weight[free.group] * np.sqrt(usable * total[:, None])).sum(axis=1)
    steps = np.clip(np.floor(free.shared * STEPS + STEP_ROUNDING), 0, STEPS).astype(np.int64)
    saved: Floats = free.whole + workload.part_worth[steps].sum(axis=1)
    for left, beside in zip((free.cpu_millis, free.memory_bytes), workload.beside, strict=True):
        if beside > 0:
            saved = np.minimum(saved, left / beside)
    total_worth: Floats = value + SAVED * saved
    return total_worth


def losses(free: FreeNodes, request: Request, workload: Workload) -> tuple[Floats, Ints]:
    """The reference: the way to place the request that costs least, of equals on the fullest device.

    ``[nodes]`` losses in devices, inf where it does not fit, and ``[nodes]`` columns of ``free.shared``, -1
    for a whole device or parts of several. Losses that differ by less than ``TINY`` are equal. The compiled
    rule must give the same.
    """
    before = worth(free, workload)
    best = np.full(len(before), np.inf)
    device = np.full(len(before), -1, dtype=np.int64)
    room = np.full(len(before), np.inf)
    enough = (free.cpu_millis >= request.cpu_millis) & (free.memory_bytes >= request.memory_bytes)
    for choice, after, possible in _ways(free, request):
        loss = np.where(enough & possible, before - worth(after, workload), np.inf)
        here = np.full(len(before), 2.0) if choice < 0 else free.shared[:, choice]
        better = (loss < best - TINY) | ((loss < best + TINY) & (here < room))
        best, device, room = (
            np.where(better, new, old) for new, old in ((loss, best), (choice, device), (here, room))
        )
    return best, device


def _ways(free: FreeNodes, request: Request) -> list[tuple[int, FreeNodes, Mask]]:
    """What is left after each choice of devices, and where the choice is possible."""
    cpu_millis, memory_bytes = _left(free, request)
    everywhere = np.ones(len(cpu_millis), dtype=bool)
    if not request.is_shared:
        left = FreeNodes(cpu_millis, memory_bytes, free.whole - request.devices, free.shared, free.group)
        return [(-1, left, everywhere if not request.devices else free.whole >= request.devices)]
    if request.devices > 1:
        return [_several(free, request)]
    ways = []
    for column in range(free.shared.shape[1]):
        shared = free.shared.copy()
        shared[:, column] -= request.portion
        fits = free.shared[:, column] >= request.portion - TINY
        left = FreeNodes(cpu_millis, memory_bytes, free.whole, np.maximum(shared, 0.0), free.group)
        ways.append((column, left, fits))
    opened = np.hstack([free.shared, np.full((len(cpu_millis), 1), 1.0 - request.portion)])
    left = FreeNodes(cpu_millis, memory_bytes, free.whole - 1, opened, free.group)
    ways.append((-1, left, free.whole >= 1))
    return ways


def _left(free: FreeNodes, request: Request) -> tuple[Floats, Floats]:
    return free.cpu_millis - request.cpu_millis, free.memory_bytes - request.memory_bytes


def _several(free: FreeNodes, request: Request) -> tuple[int, FreeNodes, Mask]:
    """Parts of several devices: the fullest in use that have room, then whole ones."""
    room = np.where(free.shared >= request.portion - TINY, free.shared, np.inf)
    rank = np.argsort(np.argsort(room, axis=1, kind="stable"), axis=1)
    joined = np.isfinite(room) & (rank < request.devices)
    opened = request.devices - joined.sum(axis=1)
    shared = np.maximum(np.where(joined, free.shared - request.portion, free.shared), 0.0)
    new = np.arange(request.devices)[None, :] < opened[:, None]
    parts = np.hstack([shared, np.where(new, 1.0 - request.portion, 0.0)])
    left = FreeNodes(*_left(free, request), free.whole - opened, parts, free.group)
    return -1, left, free.whole >= opened
