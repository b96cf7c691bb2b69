"""The forest of queues, and their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from kai.model.arrays import Floats, Ints
from kai.model.decisions import ResourceVector

#: CPU millicores, memory bytes, GPU devices.
RESOURCES: Final = 3
UNLIMITED: Final = -1.0
#: Two amounts that differ by less are equal: portions have two decimals, the rest are integers.
TOLERANCE: Final = 1e-6


@dataclass(slots=True, kw_only=True)
class QueueColumns:
    """One row for each queue; all arrays are float64 of shape ``[queues, 3]``.

    ``allocated``, ``allocated_non_preemptible`` and ``request`` include those of all descendants;
    ``request`` is what is allocated plus what is pending. ``usage`` is a fraction of the cluster.
    """

    deserved: Floats
    limit: Floats
    weight: Floats
    request: Floats
    allocated: Floats
    allocated_non_preemptible: Floats
    usage: Floats
    fair_share: Floats

    @classmethod
    def zeros(cls, queues: int) -> QueueColumns:
        """Queues that deserve and ask for nothing, without limit."""
        names = (
            "deserved",
            "weight",
            "request",
            "allocated",
            "allocated_non_preemptible",
            "usage",
            "fair_share",
        )
        zero: dict[str, Floats] = {name: np.zeros((queues, RESOURCES)) for name in names}
        return cls(limit=np.full((queues, RESOURCES), UNLIMITED), **zero)


def allocatable_share(deserved: Floats, *, limit: Floats, fair_share: Floats) -> Floats:
    """How much a queue may hold before others may reclaim from it; -1 is unlimited.

    Elementwise over arrays of one shape: what it deserves or its fair share, the larger, within its limit.
    Who deserves without bound has its limit.
    """
    share = np.maximum(deserved, fair_share)
    share = np.where(limit < 0, share, np.minimum(limit, share))
    return np.where(deserved < 0, limit, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShares:
    """What a division settled, as lists of vectors: plain floats are what scalar code reads fastest."""

    deserved: list[ResourceVector]
    fair: list[ResourceVector]
    allocatable: list[ResourceVector]

    @classmethod
    def of(cls, columns: QueueColumns) -> QueueShares:
        """Take the shares of all queues. Must be taken again after the next division.

        Lists by row of ``columns``, of plain tuples: they are read far more often than made. Nothing is
        shared with the columns.
        """
        allocatable = allocatable_share(columns.deserved, limit=columns.limit, fair_share=columns.fair_share)
        return cls(
            deserved=_vectors(columns.deserved),
            fair=_vectors(columns.fair_share),
            allocatable=_vectors(allocatable),
        )


def _vectors(column: Floats) -> list[ResourceVector]:
    return list(map(tuple, column.tolist()))


@dataclass(frozen=True, slots=True)
class Level:
    """Queues at one depth, prepared for a division of all three resources at once.

    ``entries`` are (queue, resource) pairs, queue-major. Each sibling group and resource is a division.
    """

    rows: Ints
    parents: Ints  # [groups] row of the parent; -1 for the top
    division: Ints  # [entries] division of an entry: 3 * group + resource
    band: Ints  # [entries] 0 for the highest priority among siblings
    rank: Ints  # [entries]


@dataclass(slots=True)
class QueueForest:
    """Parents, priorities and ages of queues.

    ``parent`` is -1 for a top queue, and must lead to a top queue from everywhere. ``rank`` is the position
    by creation time and uid; it is unique, and breaks all ties.
    """

    parent: list[int]
    priority: list[int]
    rank: list[int]
    #: For each queue its row, then its ancestors' up to the top.
    path: list[tuple[int, ...]] = field(init=False)
    #: From the top down.
    levels: list[Level] = field(init=False)
    _leveled: dict[int, list[tuple[int, int]]] = field(init=False, repr=False)

    def __init__(self, parent: ArrayLike, *, priority: ArrayLike, rank: ArrayLike) -> None:
        """All arrays are ``[queues]``: the row of the parent, the priority, and the position by age."""
        self.parent = np.asarray(parent, dtype=np.int64).tolist()
        self.priority = np.asarray(priority, dtype=np.int64).tolist()
        self.rank = np.asarray(rank, dtype=np.int64).tolist()
        self.path = _paths(self.parent)
        self.levels = [self._level(rows) for rows in _by_depth(self.path)]
        self._leveled = {}

    def __len__(self) -> int:
        return len(self.parent)

    def leveled(self, queue: int, other: int) -> tuple[int, int]:
        """The pair of ancestors (or the queues themselves) at which the two lines part, seen from the top.

        The first is of ``queue``, the second of ``other``. If one is an ancestor of the other it is the last
        pair at equal depth. The first question about a queue costs time by the number of queues.
        """
        row = self._leveled.get(queue)
        if row is None:
            row = self._leveled[queue] = [self._part(queue, each) for each in range(len(self))]
        return row[other]

    def _part(self, queue: int, other: int) -> tuple[int, int]:
        pair = (queue, other)
        for pair in zip(reversed(self.path[queue]), reversed(self.path[other]), strict=False):
            if pair[0] != pair[1]:
                break
        return pair

    def _level(self, rows: list[int]) -> Level:
        rows = sorted(rows, key=lambda row: self.rank[row])
        parents = sorted({self.parent[row] for row in rows})
        group = {parent: position for position, parent in enumerate(parents)}
        priorities: dict[int, set[int]] = {}
        for row in rows:
            priorities.setdefault(self.parent[row], set()).add(self.priority[row])
        bands = {
            parent: {each: band for band, each in enumerate(sorted(found, reverse=True))}
            for parent, found in priorities.items()
        }
        groups = np.array([group[self.parent[row]] for row in rows], dtype=np.int64)
        division = (groups[:, None] * RESOURCES + np.arange(RESOURCES)).ravel()
        return Level(
            rows=np.array(rows, dtype=np.int64),
            parents=np.array(parents, dtype=np.int64),
            division=division,
            band=_each_resource(bands[self.parent[row]][self.priority[row]] for row in rows),
            rank=_each_resource(self.rank[row] for row in rows),
        )


def _each_resource(values: Any) -> Ints:
    return np.repeat(np.fromiter(values, dtype=np.int64), RESOURCES)


def _paths(parent: list[int]) -> list[tuple[int, ...]]:
    paths: dict[int, tuple[int, ...]] = {-1: ()}

    def path(row: int) -> tuple[int, ...]:
        line: list[int] = []
        while row not in paths:
            line.append(row)
            row = parent[row]
            assert len(line) <= len(parent), "the parents of queues form a circle"
        for each in reversed(line):
            paths[each] = (each, *paths[parent[each]])
        return paths[line[0] if line else row]

    return [path(row) for row in range(len(parent))]


def _by_depth(paths: list[tuple[int, ...]]) -> list[list[int]]:
    levels: list[list[int]] = [[] for _ in range(max(map(len, paths), default=0))]
    for row, path in enumerate(paths):
        levels[len(path) - 1].append(row)
    return levels
