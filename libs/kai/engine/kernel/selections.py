"""Many selections, asked at once which of them mean a pod.

Asked one by one, the terms of all pods that are about others cost every pod that is to be placed their
number, whoever made them. Here a pod costs its labels, and the demands that these labels satisfy or break.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kai.model.arrays import Mask, Positions
from kai.model.rules.selectors import label_demands, label_selector

#: Rows in order, by what a label is or says.
_Rows: TypeAlias = "defaultdict[Hashable, array[int]]"
_NOBODY = -1


def _no_rows() -> array[int]:
    return array("q")


class _Scope(NamedTuple):
    """Namespaces in which a term looks: these, and those of certain labels; all if neither is said."""

    named: frozenset[str]
    of_labels: frozenset[str] | None

    def looks_in(self, namespace: str) -> bool:
        if not self.named and self.of_labels is None:
            return True
        return namespace in self.named or (self.of_labels is not None and namespace in self.of_labels)

    def reaches(self, namespaces: Collection[str]) -> bool:
        if not self.named and self.of_labels is None:
            return True
        return not self.named.isdisjoint(namespaces) or bool(
            self.of_labels is not None and not self.of_labels.isdisjoint(namespaces)
        )


class Selection:
    """Which pods a term is about, or all of several terms: a label selector within namespaces."""

    __slots__ = ("demands", "looks_in", "scope")

    def __init__(
        self,
        *terms: Mapping[str, Any],
        namespace: str,
        namespaces: Mapping[str, Any],
        labels: Mapping[str, str],
    ) -> None:
        """Of a pod with these labels in ``namespace``, about which the terms speak.

        Args:
            terms: as in the pod's spec, with their selectors of labels and namespaces; one at least.
            namespace: where a term looks if it neither names nor selects namespaces.
            namespaces: the objects by name; those of now count, also for later questions.
            labels: the values that ``matchLabelKeys`` and ``mismatchLabelKeys`` stand for.
        """
        #: Of labels; None where nobody is meant.
        self.demands = label_demands(_of_all([_with_label_keys(term, labels) for term in terms]))
        #: What decides about a namespace: who agrees in it looks in the same ones.
        self.scope = frozenset([_scope(term, namespace, namespaces) for term in terms])
        #: Whether pods of a namespace may be meant.
        self.looks_in = next(iter(self.scope)).looks_in if len(self.scope) == 1 else _in_all(self.scope)

    def reaches(self, namespaces: Collection[str]) -> bool:
        """Whether pods of some of the namespaces may be meant."""
        return all(each.reaches(namespaces) for each in self.scope)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels in this namespace is meant."""
        return self.demands is not None and self.looks_in(namespace) and self.demands.hold(labels)


def _scope(term: Mapping[str, Any], namespace: str, namespaces: Mapping[str, Any]) -> _Scope:
    named = frozenset(term.get("namespaces") or ())
    by_labels = term.get("namespaceSelector")
    if by_labels is None:
        return _Scope(named or frozenset((namespace,)), None)
    # One that demands nothing is for all namespaces, and that is what naming none means here.
    if not by_labels:
        return _Scope(frozenset(), None)
    of_labels = label_selector(by_labels)
    return _Scope(
        named,
        frozenset(
            obj["metadata"]["name"]
            for obj in namespaces.values()
            if of_labels(obj["metadata"].get("labels") or {})
        ),
    )


def _in_all(scopes: Collection[_Scope]) -> Callable[[str], bool]:
    return lambda namespace: all(each.looks_in(namespace) for each in scopes)


def _of_all(selectors: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """The selector of labels that demands what all of them do."""
    if len(selectors) == 1:
        return selectors[0]
    expressions: list[Mapping[str, Any]] = []
    for selector in selectors:
        if selector is None:
            return None
        said = (selector.get("matchLabels") or {}).items()
        expressions += [{"key": key, "operator": "In", "values": [value]} for key, value in said]
        expressions += selector.get("matchExpressions") or ()
    return {"matchExpressions": expressions}


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


class Selections:
    """Grows by :meth:`add`; each selection keeps its row."""

    def __init__(self) -> None:
        #: By row how many of the demands have to be satisfied by labels; less than 0 where nobody is meant.
        self._needed = _no_rows()
        self._scopes: dict[Hashable, int] = {}
        self._scope = _no_rows()
        self._looks_in: list[Callable[[str], bool]] = []
        #: By namespace what those said that had been asked.
        self._inside: dict[str, Mask] = {}
        #: By label and value, and by label alone: the rows of which it satisfies a demand, or breaks one.
        self._satisfied: _Rows = defaultdict(_no_rows)
        self._broken: _Rows = defaultdict(_no_rows)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._needed)

    def add(self, selection: Selection) -> int:
        """Its row."""
        row, demands = len(self), selection.demands
        scope = self._scopes.setdefault(selection.scope, len(self._scopes))
        if scope == len(self._looks_in):
            self._looks_in.append(selection.looks_in)
        self._scope.append(scope)
        if demands is None:
            self._needed.append(_NOBODY)
            return row
        self._needed.append(len(demands.within) + len(demands.present))
        for rows, valued in ((self._satisfied, demands.within), (self._broken, demands.without)):
            for key, values in valued.items():
                for value in values:
                    rows[key, value].append(row)
        for rows, keys in ((self._satisfied, demands.present), (self._broken, demands.absent)):
            for key in keys:
                rows[key].append(row)
        return row

    def about(self, namespace: str, labels: Mapping[str, str], *, since: int = 0) -> Positions:
        """The rows, from ``since`` on and in order, of those that mean a pod with these labels."""
        meant = self._needed_by(labels, since) & self._looking_in(namespace, since)
        return np.flatnonzero(meant) + since

    def _needed_by(self, labels: Mapping[str, str], since: int) -> Mask:
        needed = np.frombuffer(self._needed, dtype=np.int64)[since:].copy()
        for rows in _rows_of(self._satisfied, labels, since):
            needed[rows - since] -= 1
        meant: Mask = needed == 0
        for rows in _rows_of(self._broken, labels, since):
            meant[rows - since] = False
        return meant

    def _looking_in(self, namespace: str, since: int) -> Mask:
        inside = self._inside.get(namespace)
        if inside is None or len(inside) < len(self._looks_in):
            inside = np.array([looks_in(namespace) for looks_in in self._looks_in], dtype=bool)
            self._inside[namespace] = inside
        found: Mask = inside[np.frombuffer(self._scope, dtype=np.int64)[since:]]
        return found


def _rows_of(rows: _Rows, labels: Mapping[str, str], since: int) -> Iterator[Positions]:
    """Those by each label, and by each with its value. A row is in each of them once at most."""
    for pair in labels.items():
        for named in (pair, pair[0]):
            found = rows.get(named)
            if found is not None and found[-1] >= since:
                yield np.frombuffer(found, dtype=np.int64)[bisect_left(found, since) :]
