"""How many pods that a selector matches are on each node, through placements that may be undone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kai.model.rules.selectors import label_selector
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.table import NodeTable

Counts = NDArray[np.int64]
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Selection:
    """Which pods a term is about: a label selector within namespaces."""

    __slots__ = ("_namespaces", "_of_labels", "_selects")

    def __init__(
        self,
        term: Mapping[str, Any],
        namespace: str,
        namespaces: Mapping[str, Any],
        labels: Mapping[str, str],
    ) -> None:
        """Of a pod with these labels in ``namespace``; ``namespaces`` are the objects by name."""
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
        """Whether a pod is meant."""
        if self._namespaces or self._of_labels is not None:
            inside = namespace in self._namespaces or (
                self._of_labels is not None and namespace in self._of_labels
            )
            if not inside:
                return False
        return self._selects(labels)


def _with_label_keys(term: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
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
    """Counts by node for every term that was asked about in this cycle."""

    def __init__(self, nodes: NodeTable, namespaces: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._namespaces = namespaces
        #: By term: the selection, the counts, and the position of the log at which they were taken.
        self._counts: dict[bytes, tuple[Selection, Counts, int]] = {}
        #: Changes; a move that concerns no term known is one too, of nothing.
        self._log: list[tuple[Counts | None, int, int]] = []

    def counts(self, term: Mapping[str, Any], task: Task) -> Counts:
        """Placed pods by node; those being evicted are not counted."""
        labels = task.labels or {}
        relevant = {
            key: labels.get(key)
            for key in (*(term.get("matchLabelKeys") or ()), *(term.get("mismatchLabelKeys") or ()))
        }
        key = _encode((term.get("labelSelector"), term.get("namespaces"), term.get("namespaceSelector"),
                       task.namespace, relevant))  # fmt: skip
        known = self._counts.get(key)
        if known is None:
            selection = Selection(term, task.namespace, self._namespaces, labels)
            counts = np.zeros(len(self._nodes), dtype=np.int64)
            for node in self._nodes.nodes:
                for other in node.tasks.values():
                    here = (other.pipelined_node or other.node) is node and ACTIVE_ALLOCATED[other.status]
                    if here and selection.matches(other.namespace, other.labels or {}):
                        counts[node.row] += 1
            known = self._counts[key] = (selection, counts, len(self._log))
        return known[1]

    def moved(self, task: Task, node: Node, sign: int) -> None:
        """A pod came or went."""
        self._log.append((None, node.row, sign))
        for selection, counts, _ in self._counts.values():
            if selection.matches(task.namespace, task.labels or {}):
                self.shift(counts, node.row, sign)

    def shift(self, counts: Counts, row: int, sign: int) -> None:
        """Change a count, to be undone with the rest."""
        counts[row] += sign
        self._log.append((counts, row, sign))

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back; counts that were taken later know of moves that they do not have in the log."""
        if len(self._log) == mark:
            return
        while len(self._log) > mark:
            counts, row, sign = self._log.pop()
            if counts is not None:
                counts[row] -= sign
        late = [key for key, (_, _, taken) in self._counts.items() if taken > mark]
        for key in late:
            del self._counts[key]


def by_domain(counts: Counts, numbers: NDArray[np.int32], domains: int) -> Counts:
    """Sums by domain; nodes without the label (-1) belong to none."""
    inside = numbers >= 0
    return np.bincount(numbers[inside], weights=counts[inside], minlength=max(domains, 1)).astype(np.int64)


def spread_back(
    values: Sequence[Any] | NDArray[Any], numbers: NDArray[np.int32], outside: Any
) -> NDArray[Any]:
    """A value for each node from one for each domain."""
    return np.append(np.asarray(values), outside)[numbers]
