"""The order of sibling queues: what is said of their shares, then age."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from kai.engine.fairness.order import NO_RESOURCES
from kai.model.arrays import Floats, Ints
from kai.model.decisions import ResourceVector

#: Smallest first; of equal ones the older queue comes first.
QueueKey: TypeAlias = tuple[float, ...]
Columns: TypeAlias = tuple[Floats | Ints, ...]


class Ranking(Protocol):
    """What one has to say of the order of queues; see ``kai.engine.framework.protocols.QueueRanking``."""

    def key(self, queue: int, *, job: ResourceVector = ..., victims: ResourceVector = ...) -> QueueKey:
        """Of a queue (a row) with what its next job asks for, less what victims hold; smaller comes first."""

    def columns(self, queues: Ints, *, held: Ints, jobs: Ints) -> Columns | None:
        """The same of many rows, one array for each number of a key; None: that cannot be told.

        ``held`` and ``jobs`` are ``[keys, 3]``: what each queue would hold, and what its next job asks for.
        """


class QueueOrder:
    """What rankings say in turn, put together once for a cycle; one alone is asked without a detour."""

    __slots__ = ("_rankings", "_rows", "age", "key")

    def __init__(self, rankings: Sequence[Ranking], age: Sequence[int]) -> None:
        """``age`` by row of queues, the oldest first, all different."""
        self.age = age
        self.key: Callable[..., QueueKey] = rankings[0].key if len(rankings) == 1 else self._joined
        self._rankings = rankings
        self._rows: Ints | None = None

    def _joined(
        self, queue: int, *, job: ResourceVector = NO_RESOURCES, victims: ResourceVector = NO_RESOURCES
    ) -> QueueKey:
        return tuple(part for each in self._rankings for part in each.key(queue, job=job, victims=victims))

    def ranks(self, queues: Ints, *, held: Ints, jobs: Ints) -> Ints | None:
        """Ranks of the keys of many rows, each with what it holds and its next job; None: nobody can tell.

        ``held`` and ``jobs`` are ``[keys, 3]`` in millicores, bytes and hundredths of GPUs. Equal keys are
        ranked by age, then by position.
        """
        if self._rows is None:
            self._rows = np.array(self.age, dtype=np.int64)
        columns: list[Floats | Ints] = []
        for each in self._rankings:
            found = each.columns(queues, held=held, jobs=jobs)
            if found is None:
                return None
            columns += found
        columns.append(self._rows[queues])
        ranks = np.empty(len(queues), dtype=np.int64)
        differing = [column for column in columns if (column != column[0]).any()]
        ranks[np.lexsort(differing[::-1]) if differing else slice(None)] = np.arange(len(queues))
        return ranks
