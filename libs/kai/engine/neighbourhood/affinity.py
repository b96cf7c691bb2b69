"""Affinity and anti-affinity between pods; virtual placements count."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter, Readiness, Scorer, Tie, Ties, Tracker
from kai.engine.kernel.neighbours import Neighbours, by_domain, spread_back
from kai.engine.kernel.selections import Selection, Selections
from kai.engine.neighbourhood.attraction import (
    REQUIRED,
    Attraction,
    Companions,
    Wish,
    in_domains,
    preferences,
)
from kai.model.arrays import Floats, Ints, Mask, Positions, ShortInts
from kai.model.ids import PodUid
from kai.snapshot.classes import TaskClass
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, OCCUPYING


@dataclass(frozen=True, slots=True)
class _Terms:
    """Required terms of a class about the domains of one key; of affinity all terms are one."""

    key: str
    #: Of the counts of those that they are about, and who those are.
    rows: Positions
    selections: tuple[Selection, ...]
    #: ``[terms]`` whether they are about the class itself.
    own: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _Keepers:
    """Who does not want a pod near: the same object for all pods of whom that holds."""

    #: Keys of the domains that pods of a class, by its id, mean.
    keys: Mapping[int, Collection[str]]


class PodAffinity(Filter, Readiness, Scorer, Ties, Tracker):
    """Terms of pods about each other, in both directions.

    Required ones filter, and preferred ones score, where what pods require and prefer counts.
    """

    def __init__(self, handle: Handle, others: Companions) -> None:
        self._handle = handle
        self._namespaces = handle.objects[Kind.NAMESPACE]
        self._neighbours = Neighbours(handle.nodes, self._namespaces)
        self._filters = handle.requires
        self._attraction = Attraction(handle, self._neighbours, others) if handle.prefers else None
        #: Tasks placed or not whose anti-affinity others must respect.
        self._repelling = (
            [task for said, tasks in others if said.repelled for task in tasks] if self._filters else []
        )
        #: Whom these mean, and by row the class whose they are and the key of their domains.
        self._unwanted = Selections()
        self._keepers: list[tuple[int, str]] = []
        self._unread = others if self._repelling else ()
        #: By namespace and labels of a pod, and by the rows that mean it.
        self._kept_from: dict[tuple[str, frozenset[tuple[str, str]]], _Keepers] = {}
        self._keepers_of: dict[bytes, _Keepers] = {}
        #: By class, whose pods agree in terms, namespace and labels.
        self._wanted: dict[tuple[int, str], list[_Terms]] = {}
        self._preferred: dict[int, list[tuple[str, Positions, Floats]]] = {}
        #: Who was promised a place in this cycle, by uid; some have it by now, or have given it up.
        self._promised: dict[PodUid, Task] = {}

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with terms of their own, and every class while some pod repels or wants others."""
        constraints = cls.constraints
        return bool(
            self._repelling or self._attraction or constraints.pod_affinity or constraints.pod_anti_affinity
        )

    def depends_on(self, task: Task) -> Hashable:
        """Whom its required terms mean, itself or not, and who does not want it near."""
        if not self._filters:
            return None
        wanted = [
            (each.rows.tobytes(), each.own.tobytes())
            for field in (("pod_affinity", "pod_anti_affinity") if task.cls.affine else ())
            for each in self._terms(task, field)
        ]
        return tuple(wanted), self._kept_from_by(task) if self._repelling else None

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes whose domains satisfy all required terms."""
        if not self._filters:
            return None
        masks = [self._away(wanted) for wanted in self._terms(task, "pod_anti_affinity")]
        if wanted := self._terms(task, "pod_affinity"):
            masks.append(self._near(wanted))
        repelled = self._repelled(task)
        if repelled is not None:
            masks.append(~repelled)
        if not masks:
            return None
        return np.logical_and.reduce(masks), "node didn't match pod affinity or anti-affinity"

    def _terms(self, task: Task, field: str) -> list[_Terms]:
        """The required terms of a task: ``pod_affinity`` or ``pod_anti_affinity``."""
        known = self._wanted.get((task.cls.id, field))
        if known is None:
            known = self._wanted[task.cls.id, field] = list(self._by_key(task, field))
        return known

    def _by_key(self, task: Task, field: str) -> Iterator[_Terms]:
        of_key: dict[str, list[Mapping[str, Any]]] = {}
        wanted = terms(task.cls, field)
        for term in wanted:
            of_key.setdefault(str(term.get("topologyKey", "")), []).append(term)
        labels, ask = task.labels or {}, self._neighbours
        for key, found in of_key.items():
            # Who lingers is no company that lasts, and yet too near for those who must be apart. As in
            # kube-scheduler only those are company whom all terms are about, whatever domains they speak of.
            if field == "pod_affinity":
                rows = np.array([ask.row_of_all(wanted, task)], dtype=np.intp)
            else:
                rows = ask.rows(found, task, lingering=True)
            selections = tuple(map(ask.selection, rows.tolist()))
            own = [selection.matches(task.namespace, labels) for selection in selections]
            yield _Terms(key, rows, selections, np.array(own, dtype=bool))

    def _near(self, wanted: Sequence[_Terms]) -> Mask:
        """Nodes in whose domain of each key somebody is; all that have the keys if the task is the first."""
        columns = [self._handle.filters.labels.column(each.key) for each in wanted]
        inside: Mask = np.logical_and.reduce([numbers >= 0 for numbers, _ in columns])
        counts = self._neighbours.table[wanted[0].rows[0]]
        if wanted[0].own.all() and not self._is_company(wanted):
            return inside
        for numbers, values in columns:
            found = by_domain(counts, numbers, domains=len(values)) > 0
            inside &= spread_back(found, numbers, outside=False)
        return inside

    def _is_company(self, wanted: Sequence[_Terms]) -> bool:
        """Whether somebody is there to be near to: as in kube-scheduler, on a node with some of the keys."""
        counts = self._neighbours.table[wanted[0].rows[0]]
        columns = [self._handle.filters.labels.column(each.key) for each in wanted]
        return any(counts[numbers >= 0].any() for numbers, _ in columns)

    def tie(self, first: Task, tasks: Sequence[Task]) -> Tie | None:
        """Pods that must be near the first one, as nobody else is there to be near to."""
        near: dict[TaskClass, list[Task]] = {}
        for task in tasks if self._filters else ():
            if task.cls.constraints.pod_affinity and task is not first:
                near.setdefault(task.cls, []).append(task)
        for others in near.values():
            wanted = self._terms(others[0], "pod_affinity")
            if wanted and _are_about(wanted[0].selections, first) and not self._is_company(wanted):
                return Tie(self._together([each.key for each in wanted]), others)
        return None

    def _together(self, keys: Sequence[str]) -> Ints:
        """``[nodes]`` numbers of domains of all keys at once; what lacks a key is in one of its own."""
        found = np.zeros(len(self._handle.nodes), dtype=np.int64)
        for key in keys:
            numbers, values = self._handle.filters.labels.column(key)
            _, found = np.unique(found * (len(values) + 1) + numbers, return_inverse=True)
        return found

    def _away(self, wanted: _Terms) -> Mask:
        """Nodes where no term finds anybody."""
        numbers, values = self._handle.filters.labels.column(wanted.key)
        if not values:
            return numbers < 0
        found = by_domain(self._neighbours.table[wanted.rows].sum(axis=0), numbers, domains=len(values))
        return np.asarray(spread_back(found == 0, numbers, outside=True), dtype=bool)

    def _repelled(self, task: Task) -> Mask | None:
        """Nodes in the domain of a pod that does not want this one near."""
        domains: dict[tuple[str, int], ShortInts] = {}
        kept_from = self._kept_from_by(task).keys
        for other in self._repelling if kept_from else ():
            where = other.pipelined_node or other.node
            if where is None or other is task or not OCCUPYING[other.status]:
                continue
            for key in kept_from.get(other.cls.id, ()):
                numbers, _ = self._handle.filters.labels.column(key)
                if numbers[where.row] >= 0:
                    domains[key, int(numbers[where.row])] = numbers
        if not domains:
            return None
        inside = [numbers == domain for (_, domain), numbers in domains.items()]
        return np.asarray(np.logical_or.reduce(inside), dtype=bool)

    def _read_unwanted(self) -> None:
        """Only where somebody is placed: most cycles place nobody."""
        for said, tasks in self._unread:
            for key, selection in said.repelled:
                self._unwanted.add(selection)
                self._keepers.append((tasks[0].cls.id, key))
        self._unread = ()

    def _kept_from_by(self, task: Task) -> _Keepers:
        """Who does not want a pod near, wherever they are."""
        said = (task.namespace, frozenset((task.labels or {}).items()))
        known = self._kept_from.get(said)
        if known is None:
            self._read_unwanted()
            rows = self._unwanted.about(task.namespace, task.labels or {})
            known = self._keepers_of.get(rows.tobytes())
            if known is None:
                keys: dict[int, set[str]] = {}
                for row in rows.tolist():
                    cls, key = self._keepers[row]
                    keys.setdefault(cls, set()).add(key)
                known = self._keepers_of[rows.tobytes()] = _Keepers(keys)
            self._kept_from[said] = known
        return known

    def waits(self, task: Task, node: Node) -> bool:
        """Whether a pod that must not be near is still on its way out of the domain, or one that must be
        there is yet to come: it may never come.
        """
        return self._filters and (self._is_left_to(task, node) or self._comes_before(task, node))

    def _is_left_to(self, task: Task, node: Node) -> bool:
        """Whether somebody has to leave first: who must not be near, or wants the pod nowhere near."""
        for wanted in self._terms(task, "pod_anti_affinity"):
            for row in np.flatnonzero(self._domain_of(node, wanted.key)).tolist():
                for other in self._handle.nodes.nodes[row].tasks.values():
                    if other.releasing and other is not task and _are_about(wanted.selections, other):
                        return True
        kept_from = self._kept_from_by(task).keys
        for other in self._repelling if kept_from else ():
            if other.releasing and other is not task and other.node is not None:
                for key in kept_from.get(other.cls.id, ()):
                    if self._domain_of(node, key)[other.node.row]:
                        return True
        return False

    def _comes_before(self, task: Task, node: Node) -> bool:
        """Whether somebody has to be there first who only has a promise."""
        wanted = self._terms(task, "pod_affinity")
        promised = [
            (other, where.row)
            for other in (self._promised.values() if wanted else ())
            if (where := other.pipelined_node) is not None and other is not task
        ]
        for each in wanted if promised else ():
            inside = self._domain_of(node, each.key)
            there = [other for other, row in promised if inside[row]]
            for selection in each.selections if there else ():
                coming = any(_are_about((selection,), other) for other in there)
                if coming and not self._is_anybody_there(selection, inside, task):
                    return True
        return False

    def _is_anybody_there(self, selection: Selection, inside: Mask, task: Task) -> bool:
        """Whether a selection is about a pod that is on one of the nodes, and is to stay."""
        for row in np.flatnonzero(inside).tolist():
            node = self._handle.nodes.nodes[row]
            for other in node.tasks.values():
                if (
                    other.node is node
                    and other.pipelined_node is None
                    and ACTIVE_ALLOCATED[other.status]
                    and other is not task
                    and _are_about((selection,), other)
                ):
                    return True
        return False

    def _domain_of(self, node: Node, key: str) -> Mask:
        """``[nodes]`` which are in one domain of a key with a node; none if that is in none."""
        numbers, _ = self._handle.filters.labels.column(key)
        number = numbers[node.row]
        return np.asarray((numbers == number) & (number >= 0), dtype=bool)

    def score(self, task: Task, able: Mask) -> Floats | None:
        """Weights of terms, its own and those of pods placed, by domain: from 0 to 100 among the nodes."""
        if self._attraction is None:
            return None
        total = self._attraction.score(task)
        for key, rows, weights in self._own_preferences(task):
            part = in_domains(self._handle, key, amounts=weights @ self._neighbours.table[rows])
            total = part if total is None else total + part
        if total is None or not able.any():
            return None
        least, most = total[able].min(), total[able].max()
        if least == most:
            return None
        found: Floats = (total - least) * (Weight.MOST / (most - least))
        return found * (Weight.POD_AFFINITY * Weight.PREFERENCE)

    def _own_preferences(self, task: Task) -> list[tuple[str, Positions, Floats]]:
        """Preferred terms of a task by the key of their domains: rows of counts, and weights."""
        known = self._preferred.get(task.cls.id)
        if known is None:
            of_key: dict[str, list[Wish]] = {}
            for weight, term in preferences(task.cls):
                key = str(term.get("topologyKey", ""))
                if self._handle.filters.labels.known(key):
                    of_key.setdefault(key, []).append((weight, term))
            known = self._preferred[task.cls.id] = [
                (
                    key,
                    self._neighbours.rows([term for _, term in found], task, lingering=True),
                    np.array([weight for weight, _ in found]),
                )
                for key, found in of_key.items()
            ]
        return known

    # --- virtual placements ----------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """One more pod on a node."""
        if task.pipelined_node is not None:
            self._promised[task.uid] = task
        self._moved(task, node, 1)

    def evicted(self, task: Task, node: Node) -> None:
        """One less."""
        self._moved(task, node, -1)

    def stays(self, task: Task, node: Node) -> None:
        """Back again."""
        self._moved(task, node, 1)

    def _moved(self, task: Task, node: Node, sign: int) -> None:
        self._neighbours.moved(task, node, sign=sign)
        if self._attraction is not None:
            self._attraction.moved(task, node, sign=sign)

    def mark(self) -> int:
        """A point to go back to."""
        return self._neighbours.mark()

    def undo(self, mark: int) -> None:
        """Go back."""
        self._neighbours.undo(mark)


def _are_about(selections: Iterable[Selection], task: Task) -> bool:
    """Whether some of them mean a pod."""
    labels = task.labels or {}
    return any(selection.matches(task.namespace, labels) for selection in selections)


def terms(cls: TaskClass, field: str) -> list[dict[str, Any]]:
    """The required terms of a class: ``pod_affinity`` or ``pod_anti_affinity``."""
    return (getattr(cls.constraints, field) or {}).get(REQUIRED) or []
