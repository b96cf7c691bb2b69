"""How many pods that a selector matches are on each node, through placements that may be undone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kai.model.arrays import Ints, Positions, ShortInts
from kai.model.rules.selectors import label_selector
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.table import NodeTable

_NONE: Positions = np.empty(0, dtype=np.intp)
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Selection:
    """Which pods a term is about: a label selector within namespaces."""

    __slots__ = ("_namespaces", "_of_labels", "_selects")

    def __init__(
        self,
        term: Mapping[str, Any],
        *,
        namespace: str,
        namespaces: Mapping[str, Any],
        labels: Mapping[str, str],
    ) -> None:
        """Of a pod with these labels in ``namespace``, about which the term speaks.

        Args:
            term: as in the pod's spec, with its selectors of labels and namespaces.
            namespace: where the term looks if it neither names nor selects namespaces.
            namespaces: the objects by name; those of now count, also for later questions.
            labels: the values that ``matchLabelKeys`` and ``mismatchLabelKeys`` stand for.
        """
        self._selects = label_selector(_with_label_keys(term, labels))
        named = frozenset(term.get("namespaces") or ())
        by_labels = term.get("namespaceSelector")
        self._namespaces = named if named or by_labels is not None else frozenset((namespace,))
        self._of_labels: frozenset[str] | None = None
        if by_labels is not None:
            of_labels = label_selector(by_labels)
            self._of_labels = frozenset(
                obj["metadata"]["name"]
                for obj in namespaces.values()
                if of_labels(obj["metadata"].get("labels") or {})
            )
            # One that demands nothing is for all namespaces, and that is what naming none means here.
            if not by_labels:
                self._of_labels = None
                self._namespaces = frozenset()

    def reaches(self, namespaces: Collection[str]) -> bool:
        """Whether pods of some of the namespaces may be meant."""
        if not self._namespaces and self._of_labels is None:
            return True
        return not self._namespaces.isdisjoint(namespaces) or bool(
            self._of_labels is not None and not self._of_labels.isdisjoint(namespaces)
        )

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels in this namespace is meant."""
        if self._namespaces or self._of_labels is not None:
            inside = namespace in self._namespaces or (
                self._of_labels is not None and namespace in self._of_labels
            )
            if not inside:
                return False
        return self._selects(labels)


def _with_label_keys(term: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """The term's selector of labels; as in Kubernetes, keys that the pod does not have say nothing."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    extra = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in labels
    ]
    return (
        {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
        if extra
        else selector
    )


class Neighbours:
    """Ints by node for every term that was asked about in this cycle.

    They are those of the state as it is, whenever a term was asked about first: a move, and taking it back,
    changes the counts of all terms known by then. Which terms are about a pod is found out once.
    """

    def __init__(self, nodes: NodeTable, namespaces: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._namespaces = namespaces
        self._rows: dict[bytes, int] = {}
        self._selections: list[Selection] = []
        #: ``[terms, nodes]`` placed pods; valid until the next question, as it grows.
        self.table: Ints = np.zeros((8, len(nodes)), dtype=np.int64)
        #: By the uid of a pod: of how many terms is known whether they are about it, and the rows of those.
        self._about: dict[str, tuple[int, Positions]] = {}
        #: Moves of pods, and changes of counts that are others'.
        self._log: list[tuple[Task | Ints, int, int]] = []

    def counts(self, term: Mapping[str, Any], task: Task) -> Ints:
        """``[nodes]`` placed pods that a term of a pod is about; those being evicted are not counted.

        A view of the table: valid until the next question, and not to be changed. The first question about a
        term costs time by the number of placed pods.
        """
        row = self.row(term, task)  # which may make the table another
        found: Ints = self.table[row]
        return found

    def selection(self, term: Mapping[str, Any], task: Task) -> Selection:
        """Whom a term of a pod is about."""
        return self._selections[self.row(term, task)]

    def row(self, term: Mapping[str, Any], task: Task) -> int:
        """The row of a term of a pod in the table of counts, whose rows stay where they are."""
        labels = task.labels or {}
        relevant = {
            key: labels.get(key)
            for key in (*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ()))
        }
        key = _encode((term.get("labelSelector"), term.get("namespaces"), term.get("namespaceSelector"),
                       task.namespace, relevant))  # fmt: skip
        known = self._rows.get(key)
        if known is None:
            known = self._rows[key] = len(self._selections)
            selection = Selection(term, namespace=task.namespace, namespaces=self._namespaces, labels=labels)
            self._selections.append(selection)
            if known == len(self.table):
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self._count(selection, self.table[known])
        return known

    def _count(self, selection: Selection, counts: Ints) -> None:
        for node in self._nodes.nodes:
            for other in node.tasks.values():
                # A pod that is moved stands on both nodes; it counts where it goes.
                here = (other.pipelined_node or other.node) is node and ACTIVE_ALLOCATED[other.status]
                if here and selection.matches(other.namespace, other.labels or {}):
                    counts[node.row] += 1

    def _terms_about(self, task: Task) -> Positions:
        """Rows of the terms known by now that are about a pod."""
        asked, found = self._about.get(task.uid, (0, _NONE))
        if asked < len(self._selections):
            labels = task.labels or {}
            more = [
                row
                for row in range(asked, len(self._selections))
                if self._selections[row].matches(task.namespace, labels)
            ]
            found = np.append(found, more).astype(np.intp)
            self._about[task.uid] = (len(self._selections), found)
        return found

    def moved(self, task: Task, node: Node, *, sign: int) -> None:
        """A pod came (``sign`` 1) or went (-1). Changes the counts of all terms known that are about it."""
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
