"""One scheduling class against all nodes: fits and scores, kept up to date node by node.

``score`` is the sum of the weights of the original's node order; nodes that cannot take a pod of the class
even after everything being released is gone have minus infinity. The bin-packing part is scaled by a
constant instead of by the candidates' minimum and maximum: the order is the same, and a change on one node
leaves the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.packing.columns import ClassHeadroom, TableHeadroom
from kai.model.arrays import Floats, Ints, Mask
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.resources import CPU, GPU, PODS
from kai.snapshot.rows import Node
from kai.snapshot.table import NodeTable

NEVER: Final = -np.inf
#: Up to so many nodes are scored one by one, as arrays take longer to set up.
_FEW: Final = 12
#: What a pod asks of a node: columns and amounts.
Demand: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Which parts of the node order are on, by the plugins of the configuration."""

    node_placement: bool = True
    gpu_spread: bool = False
    cpu_spread: bool = False
    resource_type: bool = True
    availability: bool = True
    gpu_sharing: bool = True
    #: Devices: fullest first, emptiest first, or in order of ids.
    gpu_pack: bool = True
    gpu_order_spread: bool = False
    #: Whether what pods prefer counts.
    preferences: bool = True
    #: Whether pod slots are checked (with the other filters).
    pod_slots: bool = True
    #: For the strategy that keeps room for the workload: which pods it places, and for what workload.
    gpu_headroom: bool = False
    cpu_headroom: bool = False
    headroom: TableHeadroom | None = None

    def keeps_room(self, cls: TaskClass) -> bool:
        """Whether pods of a class are placed by the strategy that keeps room for the workload."""
        return self.headroom is not None and (self.cpu_headroom if cls.cpu_only else self.gpu_headroom)

    def demand(self, cls: TaskClass) -> Demand:
        """What has to fit for a pod of a class; what is most often short comes first."""
        items = cls.items if self.pod_slots else tuple(item for item in cls.items if item[0] != PODS)
        column = ranked_by(cls)
        return tuple(sorted(items, key=lambda item: (item[0] != column, item[0])))


def ranked_by(cls: TaskClass) -> int:
    """The column of what nodes are fuller or emptier of, for pods of a class."""
    return CPU if cls.cpu_only else GPU


class ClassView:
    """Fits and scores of one class; :meth:`refresh` before reading.

    It goes by rows, so it is of no use once the epoch of the table is another.
    """

    __slots__ = (
        "_base",
        "_best",
        "_best_score",
        "_binpack",
        "_cells",
        "_headroom",
        "_mig",
        "_most",
        "_options",
        "_parts",
        "_position",
        "_shared",
        "_spread",
        "_table",
        "_x",
        "allowed",
        "cls",
        "epoch",
        "items",
        "score",
    )

    def __init__(
        self,
        cls: TaskClass,
        table: NodeTable,
        allowed: Mask,
        *,
        options: ScoreOptions,
        preferred: Floats | None = None,
        items: Demand | None = None,
    ) -> None:
        """Nothing is scored yet.

        Args:
            cls: whose score it is.
            table: of which nodes.
            allowed: ``[nodes]`` that pass all static filters.
            options: which parts of the score are on.
            preferred: ``[nodes]`` an addition to the score.
            items: what has to fit, where that is less than what the class asks for.
        """
        self.cls = cls
        self.allowed = allowed
        self.epoch = table.epoch
        self._table = table
        self._options = options
        self.items = options.demand(cls) if items is None else items
        self._x = ranked_by(cls)
        self._spread = options.cpu_spread if cls.cpu_only else options.gpu_spread
        self._headroom = None
        if options.headroom and options.keeps_room(cls):
            self._headroom = ClassHeadroom(options.headroom, cls)
        self._parts: Floats = np.zeros(len(table.nodes) if self._headroom else 0)
        self._binpack = options.node_placement and not self._spread
        column = table.allocatable[:, self._x]
        # One more than any node has: so even the emptiest gives something, and nothing is divided by 0.
        self._most = float(column.max(initial=0)) + 1.0
        self._base = self._static_score(table.nodes)
        if preferred is not None:
            self._base = self._base + preferred
        self._shared = cls.shared
        self._mig = cls.kind is GpuKind.MIG
        self.score: Floats = np.full(len(table.nodes), NEVER)
        self._position = -1
        #: The first of the best nodes and its score; -1 where it has to be looked for.
        self._best = -1
        self._best_score = NEVER

    def best(self) -> int:
        """Row of the best node, the first of equals, after a refresh; -1 if none can take the class."""
        score = self.refresh()
        if self._best < 0 and len(score):
            self._best = int(score.argmax())
            self._best_score = float(score[self._best])
        return self._best if self._best_score != NEVER else -1

    @property
    def packs(self) -> bool:
        """Whether a node is the better the fuller it is, for all that ask for as many GPUs or CPUs."""
        return self._binpack and self._headroom is None

    def takes_over(self, row: int) -> bool:
        """Whether a pod could stand on a node in the place of one that asks for just the same.

        Not where the node does not take it, nor where it holds more than it offers: then it stays full when
        one leaves.
        """
        idle, releasing = self._table.cells_idle, self._table.cells_releasing
        if not self.allowed[row]:
            return False
        return all(idle[row, column] + releasing[row, column] >= 0 for column, _ in self.items)

    def ready(self, row: int) -> bool:
        """Whether a pod of the class can begin on a node at once, as of the last refresh.

        Read from the score, so nowhere while ``nodeavailability`` is off.
        """
        score = self.score[row]
        return bool(score != NEVER and (score - self._base[row]) % Weight.GPU_SHARING >= Weight.AVAILABILITY)

    def ready_rows(self) -> Mask:
        """The same of all nodes, ``[nodes]``."""
        able = self.score != NEVER
        moving = np.where(able, self.score, 0.0) - np.where(able, self._base, 0.0)
        ready: Mask = able & (moving % Weight.GPU_SHARING >= Weight.AVAILABILITY)
        return ready

    def refresh(self) -> Floats:
        """Score all nodes that changed since the last call; returns :attr:`score`, ``[nodes]``.

        Costs time by the nodes that changed, or by all where the log does not reach back so far. The array is
        the view's own, and changes with the next call.
        """
        table = self._table
        end = table.log_start + len(table.touched)
        if self._position != end:
            if self._position < table.log_start:
                self._rescore_all()
            else:
                self._replay(table.touched[self._position - table.log_start :])
            self._position = end
        return self.score

    def _replay(self, touched: list[int]) -> None:
        rows = set(touched) if len(touched) > 1 else touched
        score = self.score
        if self._headroom is not None:
            changed = list(rows)
            self._parts[changed] = self._headroom.of(changed)
        if len(rows) == 1:
            (row,) = rows
            score[row] = value = self.score_of(row)
            self._improve(row, value)
        # Devices, and who else is on a node, are in no column.
        elif len(rows) <= _FEW or self._shared or self._mig:
            some = sorted(rows)
            values = [self.score_of(row) for row in some]
            score[some] = values
            most = max(values)
            self._improve(some[values.index(most)], most)
        else:
            chosen = np.array(sorted(rows), dtype=np.int64)
            score[chosen] = found = self._vector(chosen)
            first = int(found.argmax())
            self._improve(int(chosen[first]), float(found[first]))

    def _improve(self, row: int, value: float) -> None:
        """Keep the best node in step with the first of the best that changed; all others are as they were."""
        best, most = self._best, self._best_score
        if best < 0:
            return
        if value > most or (value == most and row <= best):
            self._best, self._best_score = row, value
        elif self.score[best] != most:
            self._best = -1

    def _rescore_all(self) -> None:
        count = len(self._table.nodes)
        self._best = -1
        if self._headroom is not None:
            self._parts[:] = self._headroom.of(range(count))
        if self._shared or self._mig:
            of = self.score_of
            self.score[:] = [of(row) for row in range(count)]
        else:
            self.score[:] = self._vector(np.arange(count))

    # --- the same rule twice: for one node, and for many -----------------------------------------
    # Both add up in the same order, or nodes that are equally good would differ by rounding.
    def score_of(self, row: int) -> float:
        """The score of one node, from its present amounts; :data:`NEVER` if it cannot take a pod."""
        if not self.allowed[row]:
            return NEVER
        table = self._table
        idle, releasing = table.cells_idle, table.cells_releasing
        now = True
        for column, amount in self.items:
            have = idle[row, column]
            if have + releasing[row, column] < amount:
                return NEVER
            if have < amount:
                now = False
        if self._mig and table.nodes[row].legacy_mig:
            return NEVER
        score: float = self._base[row]
        if self._shared:
            devices = self._devices(row)
            if devices is None:
                return NEVER
            joins, ready = devices
            now = now and ready
            if joins and self._options.gpu_sharing:
                score += Weight.GPU_SHARING
        if now and self._options.availability:
            score += Weight.AVAILABILITY
        if self._headroom is not None:
            score += self._parts[row]
        elif self._options.node_placement:
            column = self._x
            offered = table.cells_allocatable[row, column]
            if offered > 0:
                free = idle[row, column] + releasing[row, column]
                if self._binpack:
                    score += Weight.BINPACK * (1.0 - free / self._most)
                else:
                    score += free / self._capacity(row, offered)
        if self._x == CPU and self._options.gpu_sharing:
            score += self._gpu_respect(row)
        return score

    def _vector(self, rows: Ints) -> Floats:
        table = self._table
        idle, releasing = table.idle, table.releasing
        fits = self.allowed[rows]
        now = np.ones(len(rows), dtype=bool)
        for column, amount in self.items:
            have = idle[rows, column]
            now &= have >= amount
            fits = fits & (have + releasing[rows, column] >= amount)
        score = self._base[rows]
        if self._options.availability:
            score = score + Weight.AVAILABILITY * now
        if self._headroom is not None:
            score = score + self._parts[rows]
        elif self._options.node_placement:
            column = self._x
            offered = table.allocatable[rows, column]
            free = idle[rows, column] + releasing[rows, column]
            if self._binpack:
                part = Weight.BINPACK * (1.0 - free / self._most)
            else:
                capacity = np.array(
                    [
                        self._capacity(row, have)
                        for row, have in zip(rows.tolist(), offered.tolist(), strict=True)
                    ]
                )
                part = free / capacity if len(rows) else free.astype(np.float64)
            score = score + np.where(offered > 0, part, 0.0)
        if self._x == CPU and self._options.gpu_sharing:
            score = score + np.array([self._gpu_respect(row) for row in rows.tolist()])
        return np.where(fits, score, NEVER)

    def _capacity(self, row: int, offered: int) -> float:
        if self._x == CPU:
            return float(offered) or 1.0
        return float(self._table.nodes[row].gpu_count or offered) or 1.0

    def _static_score(self, nodes: list[Node]) -> Floats:
        if not self._options.resource_type or self.cls.for_gpus:
            return np.zeros(len(nodes))
        best = Weight.NO_GPUS if self._options.gpu_sharing else Weight.RESOURCE_TYPE
        return np.fromiter(
            (best if node.cpu_only else 0.0 for node in nodes), dtype=np.float64, count=len(nodes)
        )

    def _gpu_respect(self, row: int) -> float:
        """Pods without GPUs go first where GPUs are taken or shared, and last where they are idle."""
        table = self._table
        offered = table.cells_allocatable[row, GPU]
        if offered <= 0:
            return 0.0
        free = table.cells_idle[row, GPU] + table.cells_releasing[row, GPU]
        if free <= 0:
            return Weight.GPUS_TAKEN
        return Weight.GPU_QUARTER_TAKEN * float((offered - free) * 4 // offered)

    def _devices(self, row: int) -> tuple[bool, bool] | None:
        """Whether shared devices of a node can take the class: (joins one in use, room now); None if not."""
        table = self._table
        node = table.nodes[row]
        memory = node.gpu_memory_mib
        size = self.cls.part_mib(memory)
        joinable = joinable_now = spare = 0
        for device in node.groups.values():
            spare += device.unused
            if device.joinable(memory, size):
                joinable += 1
                joinable_now += device.room_now(memory, size)
        idle = table.cells_idle[row, GPU]
        whole = max(idle + table.cells_releasing[row, GPU], 0) if size <= memory else 0
        idle = min(max(idle, 0) + spare, whole)
        need = self.cls.devices
        if whole + joinable < need:
            return None
        slots_now = table.cells_idle[row, PODS]
        slots = slots_now + table.cells_releasing[row, PODS]
        new = max(0, need - joinable - spare)
        if self._options.pod_slots and slots < 1 + new:
            return None
        ready = idle + joinable_now >= need
        return joinable > 0, ready and (
            not self._options.pod_slots or slots_now >= 1 + max(0, need - joinable_now - spare)
        )
