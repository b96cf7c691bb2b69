"""Affinity and anti-affinity between pods; virtual placements count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Filter, Readiness, Scorer, Tracker
from kai.engine.kernel import scores
from kai.engine.kernel.labels import Floats, Mask
from kai.engine.kernel.neighbours import Neighbours, by_domain, spread_back
from kai.engine.plugins.predicates.attraction import (
    REQUIRED,
    Attraction,
    Companions,
    in_domains,
    preferences,
)
from kai.snapshot.classes import TaskClass
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED


class PodAffinity(Filter, Readiness, Scorer, Tracker):
    """Required terms filter, in both directions; preferred ones score if the ``podaffinity`` plugin is on."""

    def __init__(self, handle: Handle, others: Companions) -> None:
        self._handle = handle
        self._namespaces = handle.objects[Kind.NAMESPACE]
        self._neighbours = Neighbours(handle.nodes, self._namespaces)
        scored = handle.on("podaffinity")
        self._attraction = Attraction(handle, self._neighbours, others) if scored else None
        #: Tasks placed or not whose anti-affinity others must respect.
        self._repelling = [task for said, tasks in others if said.repelled for task in tasks]
        self._kept_from: dict[tuple[str, int], frozenset[str]] = {}

    def concerns(self, cls: TaskClass) -> bool:
        """Classes with terms of their own, and every class while some pod repels or wants others."""
        constraints = cls.constraints
        return bool(
            self._repelling or self._attraction or constraints.pod_affinity or constraints.pod_anti_affinity
        )

    def mask(self, task: Task) -> tuple[Mask, str] | None:
        """Nodes whose domains satisfy all required terms."""
        masks = [self._near(term, task) for term in terms(task.cls, "pod_affinity")]
        masks += [self._away(term, task) for term in terms(task.cls, "pod_anti_affinity")]
        repelled = self._repelled(task)
        if repelled is not None:
            masks.append(~repelled)
        if not masks:
            return None
        return np.logical_and.reduce(masks), "node didn't match pod affinity or anti-affinity"

    def _near(self, term: Mapping[str, Any], task: Task) -> Mask:
        numbers, values = self._handle.filters.labels.column(str(term.get("topologyKey", "")))
        counts = self._neighbours.counts(term, task)
        alone = not counts.any()
        if alone and self._neighbours.selection(term, task).matches(task.namespace, task.labels or {}):
            return numbers >= 0
        return np.asarray(
            spread_back(by_domain(counts, numbers, len(values)) > 0, numbers, outside=False), dtype=bool
        )

    def _away(self, term: Mapping[str, Any], task: Task) -> Mask:
        numbers, values = self._handle.filters.labels.column(str(term.get("topologyKey", "")))
        if not values:
            return numbers < 0
        counts = by_domain(self._neighbours.counts(term, task), numbers, len(values))
        return np.asarray(spread_back(counts == 0, numbers, outside=True), dtype=bool)

    def _repelled(self, task: Task) -> Mask | None:
        """Nodes in the domain of a pod that does not want this one near."""
        domains: dict[tuple[str, int], NDArray[np.int32]] = {}
        for other in self._repelling:
            where = other.pipelined_node or other.node
            if where is None or other is task or not ACTIVE_ALLOCATED[other.status]:
                continue
            for key in self._keys_kept_from(task, other):
                numbers, _ = self._handle.filters.labels.column(key)
                if numbers[where.row] >= 0:
                    domains[key, int(numbers[where.row])] = numbers
        if not domains:
            return None
        inside = [numbers == domain for (_, domain), numbers in domains.items()]
        return np.asarray(np.logical_or.reduce(inside), dtype=bool)

    def _keys_kept_from(self, task: Task, other: Task) -> frozenset[str]:
        """Keys of the domains in which the other pod does not want this one; its class agrees."""
        known = self._kept_from.get((task.uid, other.cls.id))
        if known is None:
            known = self._kept_from[task.uid, other.cls.id] = frozenset(
                str(term.get("topologyKey", ""))
                for term in terms(other.cls, "pod_anti_affinity")
                if self._neighbours.selection(term, other).matches(task.namespace, task.labels or {})
            )
        return known

    def waits(self, task: Task, node: Node) -> bool:
        """Whether a pod that must not be near is still on its way out of the domain."""
        away = terms(task.cls, "pod_anti_affinity")
        if not away:
            return False
        static = self._handle.filters.labels
        for term in away:
            selection = self._neighbours.selection(term, task)
            numbers, _ = static.column(str(term.get("topologyKey", "")))
            for row in np.flatnonzero(numbers == numbers[node.row]).tolist():
                for other in self._handle.nodes.nodes[row].tasks.values():
                    if (
                        other.releasing
                        and other is not task
                        and selection.matches(other.namespace, other.labels or {})
                    ):
                        return True
        return False

    def score(self, task: Task, able: Mask) -> Floats | None:
        """Weights of terms, its own and those of pods placed, by domain: from 0 to 100 among the nodes."""
        if self._attraction is None:
            return None
        total = self._attraction.score(task)
        for weight, term in preferences(task.cls):
            key = str(term.get("topologyKey", ""))
            if not self._handle.filters.labels.known(key):
                continue
            part = in_domains(self._handle, key, self._neighbours.counts(term, task), weight)
            total = part if total is None else total + part
        if total is None or not able.any():
            return None
        least, most = total[able].min(), total[able].max()
        if least == most:
            return None
        found: Floats = (total - least) * (scores.MOST / (most - least))
        return found * (scores.POD_AFFINITY * scores.PREFERENCE)

    # --- virtual placements ----------------------------------------------------------------------
    def placed(self, task: Task, node: Node) -> None:
        """One more pod on a node."""
        self._moved(task, node, 1)

    def evicted(self, task: Task, node: Node) -> None:
        """One less."""
        self._moved(task, node, -1)

    def stays(self, task: Task, node: Node) -> None:
        """Back again."""
        self._moved(task, node, 1)

    def _moved(self, task: Task, node: Node, sign: int) -> None:
        self._neighbours.moved(task, node, sign)
        if self._attraction is not None:
            self._attraction.moved(task, node, sign)

    def mark(self) -> int:
        """A point to go back to."""
        return self._neighbours.mark()

    def undo(self, mark: int) -> None:
        """Go back."""
        self._neighbours.undo(mark)


def terms(cls: TaskClass, field: str) -> list[dict[str, Any]]:
    """The required terms of a class: ``pod_affinity`` or ``pod_anti_affinity``."""
    return (getattr(cls.constraints, field) or {}).get(REQUIRED) or []
