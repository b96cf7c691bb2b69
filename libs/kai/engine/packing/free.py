"""What nodes have left, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kai.engine.packing.workload import Floats

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """Columns of what is free; all arrays have one row for each node."""

    cpu: Floats
    memory: Floats
    whole: Floats  # devices that nobody uses
    shared: Floats  # [nodes, devices] free part of each device in use, 0 for none; any order
    group: Ints  # group of nodes, as shapes name them

    def rows(self, rows: Ints) -> FreeNodes:
        """Some of the rows, copied."""
        return FreeNodes(
            self.cpu[rows], self.memory[rows], self.whole[rows], self.shared[rows], self.group[rows]
        )
