"""Headroom over the columns of the cluster state.

For a class view that has the strategy, in place of the bin-packing part of its score::

    shapes = expected_shapes(counts, table)             # pods by class, running and pending
    headroom = TableHeadroom(Workload.of(shapes), table)   # again when the shapes are no longer equal
    part = ClassHeadroom(headroom, cls)
    part.of(rows)                                       # scores by row, 0 where the class does not fit
    part.device(node)                                   # group id of the device to join, "" for a whole one
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kai.engine.packing.free import FreeNodes
from kai.engine.packing.headroom import Headroom
from kai.engine.packing.workload import Shape, Workload
from kai.model.arrays import Floats
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Node
from kai.snapshot.table import NodeTable


def shape_of(cls: TaskClass, *, gpu_memory_mib: int) -> Shape:
    """What a class asks for where a device has ``gpu_memory_mib``. MIG devices have no part in this."""
    if cls.kind is GpuKind.MIG:
        return Shape(cls.cpu_millis, cls.memory_bytes)
    if not cls.shared:
        return Shape(cls.cpu_millis, cls.memory_bytes, cls.devices + cls.dra_gpus)
    portion = cls.part_mib(gpu_memory_mib) / max(gpu_memory_mib, 1)
    return Shape(cls.cpu_millis, cls.memory_bytes, cls.devices, min(portion, 1.0))


def expected_shapes(counts: Iterable[tuple[TaskClass, int]], table: NodeTable) -> dict[Shape, float]:
    """The mix of pods counted by class; GPU memory is measured by the smallest device in the cluster.

    Counts are rounded to powers of two. That packs as well, and the mix, which all scores depend on, seldom
    changes.
    """
    # Where no node says: as such nodes count elsewhere, so that parts in hundredths come out even.
    gpu_memory_mib = min((node.gpu_memory_mib for node in table.nodes if node.gpu_memory_known), default=100)
    shapes: dict[Shape, float] = {}
    for cls, count in counts:
        shape = shape_of(cls, gpu_memory_mib=gpu_memory_mib)
        shapes[shape] = shapes.get(shape, 0.0) + count
    return {
        shape: 2.0 ** round(math.log2(count)) for shape, count in shapes.items() if shape.devices and count
    }


def devices_in_use(node: Node) -> list[tuple[str, float]]:
    """Devices in use, and which part of each is free; one that is being released entirely counts as whole.

    ``[(group id, part from 0 to 1)]``, by id. These are the columns of :attr:`FreeNodes.shared`, in this
    order.
    """
    memory = max(node.gpu_memory_mib, 1)
    return [(group, free / memory) for group, free in sorted(node.free_parts())]


class TableHeadroom(Headroom):
    """Scores over a node table; what is free is kept as they need it, node by node as it changes."""

    def __init__(self, workload: Workload, table: NodeTable) -> None:
        super().__init__(workload)
        self.table = table
        self._free = _nothing(0, 0)
        self._epoch = -1
        self._position = -1

    def free(self, rows: Sequence[int]) -> FreeNodes:
        """What is free on some nodes, or will be when all releases are done.

        Devices in order of their ids.
        """
        table = self.table
        if self._epoch != table.epoch or self._position < table.log_start:
            self._free = _nothing(len(table), self._free.shared.shape[1])
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


def _nothing(nodes: int, columns: int) -> FreeNodes:
    return FreeNodes(
        cpu_millis=np.zeros(nodes),
        memory_bytes=np.zeros(nodes),
        whole=np.zeros(nodes),
        shared=np.zeros((nodes, columns)),
        group=np.zeros(nodes, dtype=np.int64),
    )
