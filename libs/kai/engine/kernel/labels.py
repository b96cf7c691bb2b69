"""Selectors over node labels, evaluated for all nodes at once.

A label key becomes a column of small integers when first asked for; an expression is then decided once for
each distinct value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kai.model.arrays import Mask, ShortInts
from kai.model.rules.selectors import Accepts, NodeTerm, OneOf, node_terms
from kai.snapshot.rows import Node


class NodeLabels:
    """Label columns of a fixed list of nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._columns: dict[str, tuple[ShortInts, list[str]]] = {}
        #: By key the number of each value.
        self._numbers: dict[str, dict[str, int]] = {}
        self._rows: dict[str, int] = {}
        #: All keys, once it was asked about one that may not be among them: pods can make up any number.
        self._keys: frozenset[str] | None = None
        self._nowhere: tuple[ShortInts, list[str]] = (np.full(len(nodes), -1, dtype=np.int32), [])

    def column(self, key: str) -> tuple[ShortInts, list[str]]:
        """Value numbers by node (-1 where the label is missing), and the values.

        Both are kept, and not to be changed. The first question about a key costs time by the nodes.
        """
        known = self._columns.get(key)
        if known is None:
            if key not in self._known_keys():
                return self._nowhere
            values: dict[str, int] = {}
            numbers = np.fromiter(
                (
                    -1
                    if (value := node.object.labels.get(key)) is None
                    else values.setdefault(value, len(values))
                    for node in self.nodes
                ),
                dtype=np.int32,
                count=len(self.nodes),
            )
            known = self._columns[key] = (numbers, list(values))
            self._numbers[key] = values
        return known

    def _known_keys(self) -> frozenset[str]:
        if self._keys is None:
            self._keys = frozenset().union(*(node.object.labels for node in self.nodes))
        return self._keys

    def known(self, key: str) -> bool:
        """Whether any node has the label."""
        return bool(self.column(key)[1])

    def where(self, key: str, accepts: Accepts) -> Mask:
        """Nodes whose value of a label (None if missing) is accepted."""
        numbers, values = self.column(key)
        # -1, which stands for no label, finds the last element.
        if isinstance(accepts, OneOf) and len(accepts.values) < len(values):
            table = np.full(len(values) + 1, not accepts.wanted)
            _mark(table, self._numbers[key], accepts)
            table[-1] = accepts(None)
        else:
            table = np.array([*(accepts(value) for value in values), accepts(None)], dtype=bool)
        return table[numbers]

    def selector(self, pairs: Sequence[tuple[str, str]]) -> Mask:
        """``[nodes]`` those that have all of the labels; found anew each time."""
        mask = np.ones(len(self.nodes), dtype=bool)
        for key, wanted in pairs:
            mask &= self.where(key, OneOf(frozenset((wanted,))))
        return mask

    def terms(self, terms: Sequence[Mapping[str, Any]]) -> Mask:
        """``[nodes]`` those that satisfy one of the node selector terms; found anew each time.

        An empty term is satisfied by nobody, and so is no term at all.
        """
        mask = np.zeros(len(self.nodes), dtype=bool)
        for term in node_terms(terms):
            mask |= self._term(term)
        return mask

    def _term(self, term: NodeTerm) -> Mask:
        mask = np.ones(len(self.nodes), dtype=bool)
        for key, accepts in term.labels:
            mask &= self.where(key, accepts)
        for accepts in term.name:
            mask &= self._called(accepts)
        return mask

    def _called(self, accepts: Accepts) -> Mask:
        """Nodes whose name is accepted."""
        if not isinstance(accepts, OneOf):
            return np.fromiter((accepts(node.name) for node in self.nodes), dtype=bool, count=len(self.nodes))
        if not self._rows:
            self._rows = {node.name: row for row, node in enumerate(self.nodes)}
        mask = np.full(len(self.nodes), not accepts.wanted)
        _mark(mask, self._rows, accepts)
        return mask


def _mark(table: Mask, numbers: Mapping[str, int], accepts: OneOf) -> None:
    """What is said of the values that a requirement names; of all others the table says the opposite."""
    for value in accepts.values:
        number = numbers.get(value)
        if number is not None:
            table[number] = accepts.wanted
