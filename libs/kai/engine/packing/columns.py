"""Headroom over the columns of the cluster state.

For a class view that has the strategy, in place of the bin-packing part of its score::

    mix = expected(counts, table, allowed)        # pods by class, running and pending
    headroom = TableHeadroom(mix, table)          # again when its stamp is no longer equal
    part = ClassHeadroom(headroom, cls)
    part.of(rows)                                       # scores by row, 0 where the class does not fit
    part.device(node)                                   # group id of the device to join, "" for a whole one
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kai.engine.packing.free import FreeNodes
from kai.engine.packing.headroom import Headroom
from kai.engine.packing.workload import Shape, Workload
from kai.model.arrays import Floats, Ints, Mask
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Node
from kai.snapshot.table import NodeTable

#: So many sets of nodes to which pods are bound are told apart; pods of the others count everywhere.
_MOST_MASKS: Final = 32


def shape_of(cls: TaskClass, *, gpu_memory_mib: int) -> Shape:
    """What a class asks for where a device has ``gpu_memory_mib``. MIG devices have no part in this."""
    if cls.kind is GpuKind.MIG:
        return Shape(cls.cpu_millis, cls.memory_bytes)
    if not cls.shared:
        return Shape(cls.cpu_millis, cls.memory_bytes, cls.devices + cls.dra_gpus)
    portion = cls.part_mib(gpu_memory_mib) / max(gpu_memory_mib, 1)
    return Shape(cls.cpu_millis, cls.memory_bytes, cls.devices, min(portion, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The mix of pods, and the groups of nodes that its shapes tell apart."""

    shapes: dict[Shape, float]
    #: ``[nodes]``; nodes that all shapes treat alike have the same.
    group: Ints
    #: ``[groups]``: GPUs.
    capacity: Floats

    @property
    def stamp(self) -> object:
        """Equal for what is equal."""
        return self.shapes, self.group.tobytes(), self.capacity.tobytes()

    def workload(self) -> Workload:
        """The mix, weighed."""
        return Workload.of(self.shapes, capacity=self.capacity)


def expected(
    counts: Iterable[tuple[TaskClass, int]], table: NodeTable, allowed: Callable[[TaskClass], Mask | None]
) -> Expected:
    """The mix of pods counted by class; GPU memory is measured by the smallest device in the cluster.

    Counts are rounded to powers of two. That packs as well, and the mix, which all scores depend on, seldom
    changes.

    Args:
        counts: pods by class.
        table: of which nodes.
        allowed: where pods of a class may run, ``[nodes]``; None: everywhere. Equal masks should be the same
            object: each one is looked at once.
    """
    # Where no node says: as such nodes count elsewhere, so that parts in hundredths come out even.
    gpu_memory_mib = min((node.gpu_memory_mib for node in table.nodes if node.gpu_memory_known), default=100)
    gpus = np.fromiter((max(node.gpus, 0) for node in table.nodes), dtype=np.float64, count=len(table))
    wanting = [
        (shape, allowed(cls), count)
        for cls, count in counts
        if (shape := shape_of(cls, gpu_memory_mib=gpu_memory_mib)).devices and count
    ]
    masks = _told_apart(wanting, gpus)
    group, count_of_groups = _groups(masks, len(table))
    reach = {key: frozenset(np.unique(group[mask]).tolist()) for key, mask in masks.items()}
    shapes: dict[Shape, float] = {}
    for shape, mask, count in wanting:
        placed = shape._replace(groups=reach.get(id(mask)))
        shapes[placed] = shapes.get(placed, 0.0) + count
    return Expected(
        shapes={shape: 2.0 ** round(math.log2(count)) for shape, count in shapes.items()},
        group=group,
        capacity=np.bincount(group, weights=gpus, minlength=count_of_groups).astype(np.float64),
    )


def _told_apart(wanting: Iterable[tuple[Shape, Mask | None, int]], gpus: Floats) -> dict[int, Mask]:
    """The masks that matter, by their identity: those of most GPUs, that leave out any node with GPUs."""
    masks: dict[int, Mask] = {}
    weight: Counter[int] = Counter()
    for shape, mask, count in wanting:
        if mask is not None:
            masks[id(mask)] = mask
            weight[id(mask)] += count * max(round(100 * shape.devices * shape.portion), 1)
    has_gpus = gpus > 0
    matter = [key for key, _ in weight.most_common() if not masks[key][has_gpus].all()]
    return {key: masks[key] for key in matter[:_MOST_MASKS]}


def _groups(masks: Mapping[int, Mask], nodes: int) -> tuple[Ints, int]:
    """The group of each node, and how many there are: nodes in the same masks are in the same group."""
    if not masks or not nodes:
        return np.zeros(nodes, dtype=np.int64), 1
    bits = np.packbits(np.array(list(masks.values())), axis=0)
    _, group = np.unique(bits, axis=1, return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    return group, int(group.max()) + 1


def devices_in_use(node: Node) -> list[tuple[str, float]]:
    """Devices in use, and which part of each is free; one that is being released entirely counts as whole.

    ``[(group id, part from 0 to 1)]``, by id. These are the columns of :attr:`FreeNodes.shared`, in this
    order.
    """
    memory = max(node.gpu_memory_mib, 1)
    return [(group, free / memory) for group, free in sorted(node.free_parts())]


class TableHeadroom(Headroom):
    """Scores over a node table; what is free is kept as they need it, node by node as it changes."""

    def __init__(self, mix: Expected, table: NodeTable) -> None:
        super().__init__(mix.workload())
        self.table = table
        self._group = mix.group
        self._free = _nothing(mix.group[:0], 0)
        self._epoch = -1
        self._position = -1

    def free(self, rows: Sequence[int]) -> FreeNodes:
        """What is free on some nodes, or will be when all releases are done.

        Devices in order of their ids.
        """
        table = self.table
        if self._epoch != table.epoch or self._position < table.log_start:
            self._free = _nothing(self._group, self._free.shared.shape[1])
            self._update(range(len(table)))
        elif self._position < table.log_end:
            self._update(list(set(table.touched[self._position - table.log_start :])))
        self._epoch, self._position = table.epoch, table.log_end
        return self._free.rows(np.asarray(rows, dtype=np.int64))

    def _update(self, rows: Sequence[int]) -> None:
        table = self.table
        at = np.asarray(rows, dtype=np.int64)
        amounts = np.maximum(table.idle[at] + table.releasing[at], 0)
        self._free.cpu_millis[at] = amounts[:, CPU]
        self._free.memory_bytes[at] = amounts[:, MEMORY]
        self._free.whole[at] = amounts[:, GPU]
        self._free.shared[at] = 0.0
        for row in rows:
            rooms = [room for _, room in devices_in_use(table.nodes[row])]
            if len(rooms) > self._free.shared.shape[1]:
                self._widen(len(rooms))
            if rooms:
                self._free.shared[row, : len(rooms)] = rooms

    def _widen(self, columns: int) -> None:
        old = self._free
        wider = np.zeros((len(old.cpu_millis), columns))
        wider[:, : old.shared.shape[1]] = old.shared
        self._free = replace(old, shared=wider)


class ClassHeadroom:
    """Scores and devices for one class."""

    __slots__ = ("_cls", "_headroom", "_shapes")

    def __init__(self, headroom: TableHeadroom, cls: TaskClass) -> None:
        self._headroom = headroom
        self._cls = cls
        self._shapes: dict[int, Shape] = {}

    def of(self, rows: Sequence[int]) -> Floats:
        """The score of each row, 0 where the class does not fit.

        ``[len(rows)]`` in (0, 9], by the position in ``rows``. Nodes are read as they are now, releases
        counting as done.
        """
        scores = np.zeros(len(rows))
        for shape, positions in self._by_shape(rows):
            found, _ = self._headroom.score(
                self._headroom.free([rows[position] for position in positions]), shape
            )
            scores[positions] = np.maximum(found, 0.0)
        return scores

    def device(self, node: Node) -> str:
        """The device in use that a pod of the class should join, by group id; empty for a whole one.

        Before: the class fits on the node. One of parts of several devices gets an empty answer, too.
        """
        _, device = self._headroom.score(self._headroom.free([node.row]), self._shape(node.gpu_memory_mib))
        return devices_in_use(node)[int(device[0])][0] if device[0] >= 0 else ""

    def _by_shape(self, rows: Sequence[int]) -> list[tuple[Shape, Sequence[int]]]:
        """Places in ``rows`` by what the class asks for there, which may depend on the memory of devices."""
        if not self._cls.shared:
            return [(self._shape(0), range(len(rows)))]
        nodes = self._headroom.table.nodes
        positions: dict[int, list[int]] = {}
        for position, row in enumerate(rows):
            positions.setdefault(nodes[row].gpu_memory_mib, []).append(position)
        return [(self._shape(memory), found) for memory, found in positions.items()]

    def _shape(self, gpu_memory_mib: int) -> Shape:
        shape = self._shapes.get(gpu_memory_mib)
        if shape is None:
            shape = self._shapes[gpu_memory_mib] = shape_of(self._cls, gpu_memory_mib=gpu_memory_mib)
        return shape


def _nothing(group: Ints, columns: int) -> FreeNodes:
    nodes = len(group)
    return FreeNodes(
        cpu_millis=np.zeros(nodes),
        memory_bytes=np.zeros(nodes),
        whole=np.zeros(nodes),
        shared=np.zeros((nodes, columns)),
        group=group,
    )
