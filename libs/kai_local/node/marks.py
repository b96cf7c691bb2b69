"""What the nodes of a cluster have on this machine beyond their processes, by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

#: An interface's name has at most 15 characters.
_LETTERS = 8


@dataclass(frozen=True, slots=True)
class Marks:
    """The names of one cluster, the same for as long as its folder is: who sweeps needs no record of them."""

    name: str

    @classmethod
    def of(cls, directory: Path) -> Marks:
        """Those of the cluster whose files are in ``directory``."""
        return cls(f"kai-{hashlib.sha256(str(directory).encode()).hexdigest()[:_LETTERS]}")

    @property
    def bridge(self) -> str:
        """The bridge that joins its nodes and this machine."""
        return self.name

    @property
    def cgroup(self) -> str:
        """The cgroup, in each hierarchy, below which all runs that its nodes run."""
        return self.name

    def port(self, index: int) -> str:
        """The interface of the bridge that leads to the n-th node."""
        return f"{self.name}n{index}"
