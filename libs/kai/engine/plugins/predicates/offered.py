"""What a node offers by a device plugin of its own, where nobody hands out devices by claims."""

from __future__ import annotations

import numpy as np

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter
from kai.model.arrays import Mask
from kai.snapshot.classes import TaskClass
from kai.snapshot.nodes import CLAIMED
from kai.snapshot.rows import Task


class OfferedOnly(Filter):
    """Without resource claims an extended resource comes from a node's device plugin, or not at all."""

    def __init__(self, handle: Handle) -> None:
        self._allocatable = handle.nodes.allocatable

    def concerns(self, cls: TaskClass) -> bool:
        """Classes that ask for something that some node leaves to claims."""
        return any((self._allocatable[:, column] == CLAIMED).any() for column, _ in cls.items)

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes that offer everything themselves."""
        columns = [column for column, _ in task.cls.items]
        offered = (self._allocatable[:, columns] != CLAIMED).all(axis=1)
        return np.asarray(offered, dtype=bool), "node has no device plugin for the pod's extended resources"
