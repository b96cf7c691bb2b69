"""How many pods that a selector matches are on each node, through placements that may be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kai.engine.kernel.placed import PlacedPods
from kai.engine.kernel.selections import Selection, Selections
from kai.model.arrays import Ints, Positions, ShortInts
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, OCCUPYING
from kai.snapshot.table import NodeTable

#: So many are asked one by one in less time.
_FEW: Final = 12
#: Fields of a term that say whom it is about.
_ABOUT: Final = ("labelSelector", "namespaces", "namespaceSelector")
_NONE: Positions = np.empty(0, dtype=np.intp)
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Neighbours:
    """Ints by node for every term that was asked about in this cycle, or several terms that must all hold.

    They are those of the state as it is, whenever a term was asked about first: a move, and taking it back,
    changes the counts of all terms known by then. Which terms are about a pod is found out once. Pods that
    are being released are never counted; those that linger, or are stuck, where ``lingering`` is asked for.
    """

    def __init__(self, nodes: NodeTable, namespaces: Mapping[str, Any]) -> None:
        self._namespaces = namespaces
        self._rows: dict[bytes, int] = {}
        self._selections: list[Selection] = []
        self._asked = Selections()
        self._placed = PlacedPods(nodes)
        #: ``[terms, nodes]`` placed pods; valid until the next question, as it grows.
        self.table: Ints = np.zeros((8, len(nodes)), dtype=np.int64)
        #: By the uid of a pod: of how many terms is known whether they are about it, and the rows of those.
        self._about: dict[str, tuple[int, Positions]] = {}
        #: Moves of pods, and changes of counts that are others'.
        self._log: list[tuple[Task | Ints, int, int]] = []

    def counts(self, term: Mapping[str, Any], task: Task) -> Ints:
        """``[nodes]`` placed pods that a term of a pod is about, and that are not on their way out.

        A view of the table: valid until the next question, and not to be changed. The first question about a
        term costs time by the number of placed pods that have a label which it wants.
        """
        (row,) = self.rows((term,), task).tolist()  # which may make the table another
        found: Ints = self.table[row]
        return found

    def selection(self, row: int) -> Selection:
        """Whom the term of a row is about."""
        return self._selections[row]

    def rows(self, terms: Iterable[Mapping[str, Any]], task: Task, *, lingering: bool = False) -> Positions:
        """The rows of terms of a pod in the table, where they stay; they are counted together."""
        return self._rows_of([(term,) for term in terms], task, lingering=lingering)

    def row_of_all(self, terms: Sequence[Mapping[str, Any]], task: Task) -> int:
        """The row of those pods that all of some terms of a pod are about; one term at least."""
        (row,) = self._rows_of([terms], task, lingering=False).tolist()
        return int(row)

    def _rows_of(
        self, wanted: Iterable[Sequence[Mapping[str, Any]]], task: Task, *, lingering: bool
    ) -> Positions:
        known = len(self._selections)
        found = [self._row(terms, task, lingering) for terms in wanted]
        if len(self._selections) > known:
            while len(self._selections) > len(self.table):
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self._count(since=known, states=OCCUPYING if lingering else ACTIVE_ALLOCATED)
        return np.array(found, dtype=np.intp)

    def _row(self, terms: Sequence[Mapping[str, Any]], task: Task, lingering: bool) -> int:
        labels = task.labels or {}
        said = [[term.get(field) for field in _ABOUT] for term in terms]
        named = [
            {key: labels.get(key) for key in term.get(field) or ()}
            for term in terms
            for field in ("matchLabelKeys", "mismatchLabelKeys")
        ]
        key = _encode((said, named, task.namespace, lingering))
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = len(self._selections)
            selection = Selection(
                *terms, namespace=task.namespace, namespaces=self._namespaces, labels=labels
            )
            self._selections.append(selection)
            self._asked.add(selection)
        return known

    def _count(self, *, since: int, states: Sequence[bool]) -> None:
        broad: list[int] = []
        for row, selection in enumerate(self._selections[since:], since):
            found = self._placed.by_label(selection)
            if found is None:
                broad.append(row)
            for other in found or ():
                if selection.matches(other.namespace, other.labels or {}):
                    self._add(row, other, states)
        if len(broad) > _FEW:
            for other in self._placed.all():
                meant = self._asked.about(other.namespace, other.labels or {}, since=since)
                self._add(meant[np.isin(meant, broad)], other, states)
            return
        for row in broad:
            for other in self._placed.all():
                if self._selections[row].matches(other.namespace, other.labels or {}):
                    self._add(row, other, states)

    def _add(self, rows: int | Positions, task: Task, states: Sequence[bool]) -> None:
        # A pod that is moved stands on both nodes; it counts where it goes.
        where = task.pipelined_node or task.node
        if where is not None and states[task.status]:
            self.table[rows, where.row] += 1

    def _terms_about(self, task: Task) -> Positions:
        """Rows of the terms known by now that are about a pod."""
        asked, found = self._about.get(task.uid, (0, _NONE))
        if asked < len(self._selections):
            more = self._asked.about(task.namespace, task.labels or {}, since=asked)
            found = np.append(found, more).astype(np.intp)
            self._about[task.uid] = (len(self._selections), found)
        return found

    def moved(self, task: Task, node: Node, *, sign: int) -> None:
        """A pod came (``sign`` 1) or went (-1). Changes the counts of all terms known that are about it."""
        if sign > 0:
            self._placed.came(task)
        self.table[self._terms_about(task), node.row] += sign
        self._log.append((task, node.row, sign))

    def shift(self, counts: Ints, row: int, *, sign: int) -> None:
        """Change a count of somebody else's ``[nodes]`` by ``sign``, to be undone with the rest."""
        counts[row] += sign
        self._log.append((counts, row, sign))

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Take back all moves and shifts since a mark, the last first; marks made after it are void."""
        while len(self._log) > mark:
            what, row, sign = self._log.pop()
            if isinstance(what, Task):
                self.table[self._terms_about(what), row] -= sign
            else:
                what[row] -= sign


def by_domain(counts: NDArray[Any], numbers: ShortInts, *, domains: int) -> NDArray[Any]:
    """``[..., domains]`` sums of ``[..., nodes]``; nodes without the label (-1) belong to none.

    ``numbers`` is ``[nodes]``, below ``domains``. There is at least one domain in the result.
    """
    inside = numbers >= 0
    if counts.ndim == 1:
        sums = np.bincount(numbers[inside], weights=counts[inside], minlength=max(domains, 1))
        return sums.astype(counts.dtype)
    found = np.zeros((max(domains, 1), len(counts)), dtype=counts.dtype)
    np.add.at(found, numbers[inside], counts[:, inside].T)
    return found.T


def spread_back(values: Sequence[Any] | NDArray[Any], numbers: ShortInts, *, outside: Any) -> NDArray[Any]:
    """``[nodes]`` a value for each node from one for each domain; ``outside`` where the number is -1."""
    return np.append(np.asarray(values), outside)[numbers]
