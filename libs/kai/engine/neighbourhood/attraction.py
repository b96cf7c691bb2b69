"""What pods placed already wish about a pod to be placed, through placements that may be undone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework.handle import Handle
from kai.engine.kernel.neighbours import Neighbours, by_domain, spread_back
from kai.engine.kernel.selections import Selection, Selections
from kai.model.arrays import Floats, Ints
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task, tasks_by_class
from kai.snapshot.status import OCCUPYING

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

#: A weight, negative for anti-affinity, and its term.
Wish: TypeAlias = tuple[float, Mapping[str, Any]]


def preferences(cls: TaskClass) -> Iterator[Wish]:
    """The preferred terms of a class."""
    for rules, sign in ((cls.constraints.pod_affinity, 1.0), (cls.constraints.pod_anti_affinity, -1.0)):
        for weighted in (rules or {}).get(PREFERRED) or ():
            yield sign * float(weighted.get("weight", 1)), weighted.get("podAffinityTerm") or {}


def wishes(cls: TaskClass) -> list[Wish]:
    """What pods of a class, once placed, wish of others: preferred terms, and required ones to be near."""
    near = (cls.constraints.pod_affinity or {}).get(REQUIRED) or ()
    return [*preferences(cls), *((Weight.REQUIRED_TERM, term) for term in near)]


@dataclass(frozen=True, slots=True)
class Said:
    """What pods of a class, once placed, say of others."""

    #: What they wish of others, and of whom.
    wishes: tuple[tuple[float, Mapping[str, Any], Selection], ...]
    #: Who must not be near, by the key of domains.
    repelled: tuple[tuple[str, Selection], ...]

    @classmethod
    def by(cls, task: Task, namespaces: Mapping[str, Any]) -> Said:
        """What the class of a pod says; its pods agree in terms, namespace and labels."""

        def of(term: Mapping[str, Any]) -> Selection:
            return Selection(term, namespace=task.namespace, namespaces=namespaces, labels=task.labels or {})

        away = (task.cls.constraints.pod_anti_affinity or {}).get(REQUIRED) or ()
        return cls(
            tuple((weight, term, of(term)) for weight, term in wishes(task.cls)),
            tuple((str(term.get("topologyKey", "")), of(term)) for term in away),
        )

    def reaches(self, namespaces: Collection[str]) -> bool:
        """Whether pods of some of the namespaces may be meant."""
        return any(each.reaches(namespaces) for _, each in self.repelled) or any(
            each.reaches(namespaces) for _, _, each in self.wishes
        )


#: By class, of those that there are and while namespaces stay as they are.
_SAID: Final = Kept[dict[TaskClass, Said]]()
#: Pods of one class, and what they say.
Companions: TypeAlias = Sequence[tuple[Said, Sequence[Task]]]


def companions(handle: Handle) -> Companions:
    """Pods whose terms may matter to pods of ours, by class: all of ours, and others that speak of our
    namespaces.

    Most clusters run pods that speak of their own kind in a namespace of their own, such as DNS servers.
    """
    if not handle.affine:
        return ()
    pods = tasks_by_class(handle.affine.values())
    namespaces = handle.objects[Kind.NAMESPACE]
    known = _SAID.get(handle.kept, handle.versions[Kind.NAMESPACE], dict)
    said = {cls: known.get(cls) or Said.by(tasks[0], namespaces) for cls, tasks in pods.items()}
    known.clear()
    known.update(said)
    ours: set[str] | None = None
    found: list[tuple[Said, Sequence[Task]]] = []
    for cls, tasks in pods.items():
        speaks = said[cls]
        if any(task.job is None for task in tasks):
            if ours is None:
                ours = {job.namespace for job in handle.jobs.values()}
            if not speaks.reaches(ours):
                tasks = [task for task in tasks if task.job is not None]
        if tasks:
            found.append((speaks, tasks))
    return found


class Attraction:
    """Pods with wishes, counted by class and node: pods of a class agree in terms, namespace and labels."""

    def __init__(self, handle: Handle, neighbours: Neighbours, companions: Companions) -> None:
        self._handle = handle
        self._neighbours = neighbours
        self._placed: dict[int, Ints] = {}
        #: Whom the wishes mean, and by row whose they are, their domain's key and their weight.
        self._meant = Selections()
        self._wishes: list[tuple[int, str, float]] = []
        self._unread: list[tuple[int, Said]] = []
        #: Wishes that speak of a pod, by its namespace and labels: for each class that has some, where its
        #: pods are, and the weights by the key of a domain.
        self._about: dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[Ints, dict[str, float]]]] = {}
        for said, tasks in companions:
            if not said.wishes:
                continue
            number = tasks[0].cls.id
            counts = self._placed[number] = np.zeros(len(handle.nodes), dtype=np.int64)
            self._unread.append((number, said))
            for task in tasks:
                where = task.pipelined_node or task.node
                if where is not None and OCCUPYING[task.status]:
                    counts[where.row] += 1

    def __bool__(self) -> bool:
        return bool(self._placed)

    def moved(self, task: Task, node: Node, *, sign: int) -> None:
        """A pod came or went."""
        counts = self._placed.get(task.cls.id)
        if counts is not None:
            self._neighbours.shift(counts, node.row, sign=sign)

    def score(self, task: Task) -> Floats | None:
        """Weights of the terms that match the task, summed over the pods of each node's domain."""
        key = (task.namespace, frozenset((task.labels or {}).items()))
        about = self._about.get(key)
        if about is None:
            about = self._about[key] = list(self._speaking_of(task))
        of_key: dict[str, Floats] = {}
        for counts, weights in about:
            if counts.any():
                for domain, weight in weights.items():
                    wished: Floats = counts * np.float64(weight)
                    of_key[domain] = of_key[domain] + wished if domain in of_key else wished
        total: Floats | None = None
        for domain, amounts in of_key.items():
            part = in_domains(self._handle, domain, amounts=amounts)
            total = part if total is None else total + part
        return total

    def _speaking_of(self, task: Task) -> Iterator[tuple[Ints, dict[str, float]]]:
        self._read()
        by_class: dict[int, dict[str, float]] = {}
        for row in self._meant.about(task.namespace, task.labels or {}).tolist():
            cls, domain, weight = self._wishes[row]
            weights = by_class.setdefault(cls, {})
            weights[domain] = weights.get(domain, 0.0) + weight
        for cls, weights in by_class.items():
            yield self._placed[cls], weights

    def _read(self) -> None:
        """Only where somebody is placed: most cycles place nobody."""
        for number, said in self._unread:
            for weight, term, selection in said.wishes:
                domain = str(term.get("topologyKey", ""))
                if self._handle.filters.labels.known(domain):
                    self._meant.add(selection)
                    self._wishes.append((number, domain, weight))
        self._unread = []


def in_domains(handle: Handle, key: str, *, amounts: Floats) -> Floats:
    """For each node the sum over the nodes of its domain by a key; 0 for nodes outside all domains."""
    numbers, values = handle.filters.labels.column(key)
    return np.asarray(spread_back(by_domain(amounts, numbers, domains=len(values)), numbers, outside=0.0))
