"""How many pods of a class fit on each node, kept up to date node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kai.model.arrays import Ints, Mask
from kai.model.rules.gpu_shares import centi_of_memory
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.resources import GPU
from kai.snapshot.table import NodeTable

#: Pods that fit where a class asks for nothing: more than there are, and few enough to be summed up.
PLENTY: Final = 1 << 40


class Room:
    """What is free for a class on every node, kept for a cycle; bounds taken before a refresh end with it."""

    def __init__(self, table: NodeTable, cls: TaskClass, allowed: Mask) -> None:
        self._table = table
        self._cls = cls
        self._allowed = allowed
        self._columns = [column for column, _ in cls.items]
        self._amounts = np.array([amount for _, amount in cls.items], dtype=np.int64)
        self._position = -1
        #: ``[nodes, columns]`` idle and being released; hundredths of GPUs in one more where they are shared.
        #: Rows of nodes that are not allowed may be out of date.
        self.free: Ints = np.zeros((0, 0), dtype=np.int64)
        #: ``[nodes]`` pods that fit, and their sum.
        self.slots: Ints = np.zeros(0, dtype=np.int64)
        self.total = 0

    def refresh(self) -> None:
        """Take in what changed since the last call.

        Costs time by the nodes that changed, or by all where the class shares devices and any did.
        """
        table = self._table
        if self._position == table.log_end:
            return
        if self._position < table.log_start or self._cls.shared:
            self._measure_all()
        else:
            for row in set(table.touched[self._position - table.log_start :]):
                self._measure(row)
        self._position = table.log_end

    def _measure(self, row: int) -> None:
        if not self._allowed[row]:
            return
        table = self._table
        idle, releasing = table.cells_idle, table.cells_releasing
        slots = PLENTY
        for position, (column, amount) in enumerate(self._cls.items):
            have = idle[row, column] + releasing[row, column]
            self.free[row, position] = have
            slots = min(slots, have // amount)
        slots = max(slots, 0)
        self.total += slots - int(self.slots[row])
        self.slots[row] = slots

    def _measure_all(self) -> None:
        table, cls = self._table, self._cls
        free = table.idle[:, self._columns] + table.releasing[:, self._columns]
        slots = _times(free, self._amounts)
        if cls.shared:
            gpus = free_centi(table)
            sizes = [node.gpu_memory_mib for node in table.nodes]
            need = {size: max(cls.quota_centi(size), 1) for size in set(sizes)}
            needs = np.array([need[size] for size in sizes], dtype=np.int64)
            slots = np.minimum(slots, gpus // needs)
            free = np.column_stack((free, gpus))
        self.free = free
        self.slots = np.where(self._allowed, np.maximum(slots, 0), 0)
        self.total = int(self.slots.sum())


def free_slots(table: NodeTable, cls: TaskClass, inside: Mask) -> Ints:
    """``[nodes]`` pods of a class that fit on what is free or being released, 0 outside."""
    room = Room(table, cls, inside)
    room.refresh()
    return room.slots


def free_slots_of(table: NodeTable, amounts: Mapping[int, int], inside: Mask) -> Ints:
    """``[nodes]`` how often these amounts, by column, fit into what is free or being released, 0 outside."""
    columns = list(amounts)
    free = table.idle[:, columns] + table.releasing[:, columns]
    slots = _times(free, np.array(list(amounts.values()), dtype=np.int64))
    return np.where(inside, np.maximum(slots, 0), 0)


def _times(free: Ints, amounts: Ints) -> Ints:
    return np.asarray((free // amounts).min(axis=1, initial=PLENTY))


def free_centi(table: NodeTable) -> Ints:
    """``[nodes]`` hundredths of GPUs that are free or will be, counting parts of shared devices generously.

    Each device's part is rounded up, so it is an upper bound of what can be charged for pods there.
    """
    found: Ints = np.maximum(table.idle[:, GPU] + table.releasing[:, GPU], 0) * GPU_CENTI
    for node in table.sharing.values():
        memory = node.gpu_memory_mib
        found[node.row] += sum(centi_of_memory(free, memory) for _, free in node.free_parts())
    return found
