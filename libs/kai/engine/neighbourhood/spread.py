"""``topologySpreadConstraints``: pods of a kind over domains; virtual placements count.

Those that must hold keep a domain from getting ahead of the emptiest by too much, the others order the
nodes, both as in kube-scheduler. Constraints that a cluster gives pods without any are not known here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter, Scorer, Tracker
from kai.engine.kernel.neighbours import Neighbours, by_domain, spread_back
from kai.model.arrays import Floats, Mask
from kai.snapshot.classes import TaskClass
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task

_HOSTNAME: Final = "kubernetes.io/hostname"
_WHY: Final = "node didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constraint:
    key: str
    max_skew: int
    min_domains: int
    #: Which pods count.
    term: Mapping[str, Any]
    #: On which nodes they count.
    counted: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The constraints of a class; nodes must have the keys of all that are of a kind."""

    hard: tuple[_Constraint, ...]
    soft: tuple[_Constraint, ...]
    #: Nodes with the keys of all soft ones.
    ordered: Mask


class TopologySpread(Filter, Scorer, Tracker):
    """Constraints that must hold filter where what pods require counts, others score where preferences do."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._neighbours = Neighbours(handle.nodes, handle.objects[Kind.NAMESPACE])
        self._filters, self._scores = handle.requires, handle.prefers
        self._rules: dict[int, _Rules] = {}

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with constraints that have an effect."""
        return any(self._counts(each) for each in cls.constraints.spread)

    def depends_on(self, task: Task) -> Hashable:
        """Whom the constraints that must hold count, and whether that is the pod itself."""
        terms = [each.term for each in self._of(task.cls).hard]
        rows = self._neighbours.rows(terms, task).tolist()
        return tuple([(row, self._is_counted(row, task)) for row in rows])

    def _is_counted(self, row: int, task: Task) -> bool:
        return self._neighbours.selection(row).matches(task.namespace, task.labels or {})

    def _counts(self, constraint: Mapping[str, Any]) -> bool:
        return self._filters if must_hold(constraint) else self._scores

    def _of(self, cls: TaskClass) -> _Rules:
        known = self._rules.get(cls.id)
        if known is None:
            found = [each for each in cls.constraints.spread if self._counts(each)]
            hard = [each for each in found if must_hold(each)]
            soft = [each for each in found if not must_hold(each)]
            ordered = self._labelled(soft)
            known = self._rules[cls.id] = _Rules(
                hard=tuple(self._read(each, cls, self._labelled(hard)) for each in hard),
                soft=tuple(self._read(each, cls, ordered) for each in soft),
                ordered=ordered,
            )
        return known

    def _labelled(self, constraints: list[dict[str, Any]]) -> Mask:
        """Nodes with the keys of all of them."""
        mask = np.ones(len(self._handle.nodes), dtype=bool)
        for each in constraints:
            mask &= self._handle.filters.labels.column(str(each.get("topologyKey", "")))[0] >= 0
        return mask

    def _read(self, constraint: Mapping[str, Any], cls: TaskClass, labelled: Mask) -> _Constraint:
        static, counted = self._handle.filters, labelled
        # What is left out is as Kubernetes has it: affinity counts, taints do not.
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
            counted = counted & static.affinity(cls)
        if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor":
            counted = counted & static.tolerated(cls)
        return _Constraint(
            key=str(constraint.get("topologyKey", "")),
            max_skew=int(constraint.get("maxSkew", 1)),
            min_domains=int(constraint.get("minDomains") or 1),
            term={
                "labelSelector": constraint.get("labelSelector"),
                "matchLabelKeys": constraint.get("matchLabelKeys"),
            },
            counted=counted,
        )

    # --- those that must hold ----------------------------------------------------------------------
    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes whose domains may take one more."""
        rules = self._of(task.cls)
        if not rules.hard:
            return None
        return np.logical_and.reduce([self._balanced(each, task) for each in rules.hard]), _WHY

    def _balanced(self, constraint: _Constraint, task: Task) -> Mask:
        numbers, values = self._handle.filters.labels.column(constraint.key)
        (row,) = self._neighbours.rows((constraint.term,), task).tolist()
        counts = by_domain(self._neighbours.table[row] * constraint.counted, numbers, domains=len(values))
        domains = np.unique(numbers[constraint.counted])
        if not len(domains):
            return np.zeros(len(numbers), dtype=bool)
        # Too few domains count as if there was an empty one, as in kube-scheduler.
        lowest = int(counts[domains].min()) if len(domains) >= constraint.min_domains else 0
        allowed = counts + self._is_counted(row, task) - lowest <= constraint.max_skew
        return np.asarray(spread_back(allowed, numbers, outside=False), dtype=bool)

    # --- the others --------------------------------------------------------------------------------
    def score(self, task: Task, able: Mask) -> Floats | None:
        """The fewer pods of the kind in a node's domains the better; 0 for nodes outside of some."""
        rules = self._of(task.cls)
        usable = able & rules.ordered
        if not rules.soft or not usable.any():
            return None
        crowd = np.sum([self._crowd(each, task, usable) for each in rules.soft], axis=0)
        least, most = crowd[usable].min(), crowd[usable].max()
        part = Weight.MOST * (most + least - crowd) / most if most else np.full(len(crowd), Weight.MOST)
        found: Floats = np.where(usable, part, 0.0) * (Weight.TOPOLOGY_SPREAD * Weight.PREFERENCE)
        return found

    def _crowd(self, constraint: _Constraint, task: Task, usable: Mask) -> Floats:
        """For each node the pods in its domain; those of coarse keys, with few domains, weigh less each."""
        counts = self._neighbours.counts(constraint.term, task)
        if constraint.key == _HOSTNAME:
            # A node is a domain, and as in kube-scheduler policies for nodes say nothing of it.
            here, domains = counts, int(usable.sum())
        else:
            numbers, values = self._handle.filters.labels.column(constraint.key)
            of_domain = by_domain(counts * constraint.counted, numbers, domains=len(values))
            here, domains = spread_back(of_domain, numbers, outside=0), len(np.unique(numbers[usable]))
        found: Floats = here * np.log(domains + 2) + (constraint.max_skew - 1)
        return found

    # --- virtual placements ------------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """One more pod on a node."""
        self._neighbours.moved(task, node, sign=1)

    def evicted(self, task: Task, node: Node) -> None:
        """One less."""
        self._neighbours.moved(task, node, sign=-1)

    def stays(self, task: Task, node: Node) -> None:
        """Back again."""
        self._neighbours.moved(task, node, sign=1)

    def mark(self) -> int:
        """A point to go back to."""
        return self._neighbours.mark()

    def undo(self, mark: int) -> None:
        """Go back."""
        self._neighbours.undo(mark)


def must_hold(constraint: Mapping[str, Any]) -> bool:
    """Whether a constraint filters; the others order."""
    return bool(constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule")
