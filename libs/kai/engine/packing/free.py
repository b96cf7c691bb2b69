"""What nodes have left, as columns."""

from __future__ import annotations

from dataclasses import dataclass

from kai.model.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class FreeNodes:
    """Columns of what is free; all arrays have one row for each node."""

    cpu_millis: Floats
    memory_bytes: Floats
    whole: Floats  # devices that nobody uses
    shared: Floats  # [nodes, devices] free part of each device in use, 0 for none; any order
    group: Ints  # group of nodes, as shapes name them

    def rows(self, rows: Ints) -> FreeNodes:
        """Some of the rows, copied."""
        return FreeNodes(
            self.cpu_millis[rows],
            self.memory_bytes[rows],
            self.whole[rows],
            self.shared[rows],
            self.group[rows],
        )
