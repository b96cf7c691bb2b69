"""Node columns: nodes x resources, with a log of the rows that changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kai.model.arrays import Ints
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import Node


def cells(matrix: Any) -> Any:
    """The same memory, for single numbers: ``cells[row, column]`` beats the array's several times."""
    return memoryview(matrix)


class NodeTable:
    """Amounts of all nodes, int64 of shape ``[capacity, columns]``; row i belongs to ``nodes[i]``.

    ``cells`` of a matrix are the same memory as a memoryview: single numbers are read and written there,
    whole columns through numpy. After :meth:`settle` rows are in order of node names. Adding a node or a
    resource may make the matrices others: views and cells from before do not follow.
    """

    def __init__(self, resources: ResourceTable) -> None:
        self.resources = resources
        self.nodes: list[Node] = []
        self.by_name: dict[str, Node] = {}
        #: Nodes with devices that are shared, by name.
        self.sharing: dict[str, Node] = {}
        #: Rows that changed, oldest first; ``log_start`` is how many were forgotten before the first.
        self.touched: list[int] = []
        self.log_start = 0
        #: Changes when rows move or what is static about a node changes.
        self.epoch = 0
        self._sorted = True
        self._matrix: Ints = np.zeros((3, 0, 0), dtype=np.int64)
        self._allocate(64, 8)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def log_end(self) -> int:
        """Position after the newest entry of the log.

        It only rises. Who has read up to a position is up to date while it is this one, and has to look at
        all nodes anew where it is before :attr:`log_start`.
        """
        return self.log_start + len(self.touched)

    @property
    def allocatable(self) -> Ints:
        """``[nodes, columns]``; a view."""
        return self._matrix[0, : len(self.nodes)]

    @property
    def idle(self) -> Ints:
        """``[nodes, columns]``: allocatable less what tasks hold; a view."""
        return self._matrix[1, : len(self.nodes)]

    @property
    def releasing(self) -> Ints:
        """``[nodes, columns]``: being released, less what is promised of it; a view.

        Negative where idle resources are promised as well.
        """
        return self._matrix[2, : len(self.nodes)]

    def add(self, node: Node) -> None:
        """Append a row of zeros.

        Before: there is no row of its name. The epoch is another afterwards. Rows are in the order of names
        only after :meth:`settle`.
        """
        if len(self.nodes) == self._matrix.shape[1]:
            self._allocate(2 * len(self.nodes), self._matrix.shape[2])
        node.row = len(self.nodes)
        self._matrix[:, node.row] = 0
        self._sorted = self._sorted and (not self.nodes or self.nodes[-1].name < node.name)
        self.nodes.append(node)
        self.by_name[node.name] = node
        self.changed()

    def remove(self, node: Node) -> None:
        """Drop a row; the last one takes its place until :meth:`settle`.

        Before: nothing is charged to it. The epoch is another afterwards: numbers of rows found before mean
        others.
        """
        last = self.nodes.pop()
        del self.by_name[node.name]
        if last is not node:
            self._matrix[:, node.row] = self._matrix[:, last.row]
            last.row = node.row
            self.nodes[node.row] = last
            self._sorted = False
        self.changed()

    def set_allocatable(self, node: Node, amounts: dict[int, int]) -> None:
        """Set what a node offers; nothing may be charged to it meanwhile.

        ``amounts`` are by column, in units of :class:`~kai.snapshot.resources.ResourceTable`; what is not
        named is 0. All that is offered is idle afterwards.
        """
        self.fit_columns()
        self._matrix[:, node.row] = 0
        for column, amount in amounts.items():
            self.cells_allocatable[node.row, column] = amount
            self.cells_idle[node.row, column] = amount
        self.touched.append(node.row)

    def clear_charges(self) -> None:
        """Nothing is charged to any node."""
        self._matrix[1] = self._matrix[0]
        self._matrix[2] = 0
        for node in self.nodes:
            node.groups.clear()
            node.claims.clear()
            node.tasks.clear()
            node.legacy_mig = 0
        self.sharing.clear()
        self.changed()

    def fit_columns(self) -> None:
        """Make room for resources named since."""
        if len(self.resources) > self._matrix.shape[2]:
            self._allocate(self._matrix.shape[1], 2 * len(self.resources))

    def changed(self) -> None:
        """Forget everything derived from static facts and row numbers."""
        self.epoch += 1
        # One further than the log went, so that who had read all of it is behind as well.
        self.log_start += len(self.touched) + 1
        self.touched.clear()

    def settle(self) -> None:
        """Bring rows into the order of names and keep the log short.

        Where rows moved the epoch is another afterwards: numbers of rows found before mean others.
        """
        if not self._sorted:
            self.nodes.sort(key=lambda node: node.name)
            order = [node.row for node in self.nodes]
            self._matrix[:, : len(order)] = self._matrix[:, order]
            for row, node in enumerate(self.nodes):
                node.row = row
            self._sorted = True
            self.changed()
        # Mostly all have read what is forgotten; who has not looks at all nodes anew.
        elif len(self.touched) > 4 * len(self.nodes) + 1024:
            self.log_start += len(self.touched)
            self.touched.clear()

    def _allocate(self, rows: int, columns: int) -> None:
        matrix: Ints = np.zeros((3, rows, columns), dtype=np.int64)
        old = self._matrix
        matrix[:, : old.shape[1], : old.shape[2]] = old
        self._matrix = matrix
        self.cells_allocatable = cells(matrix[0])
        self.cells_idle = cells(matrix[1])
        self.cells_releasing = cells(matrix[2])
