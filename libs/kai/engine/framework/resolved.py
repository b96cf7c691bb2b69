"""The plugins of a cycle by what they can do, found out once, so that loops ask nobody in vain."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

from kai.engine.framework.protocols import (
    Entitlement,
    Filter,
    JobRanking,
    NodeFilter,
    NodeSets,
    OfClasses,
    Plugin,
    PreFilter,
    QueueRanking,
    Quota,
    Readiness,
    Scorer,
    Ties,
    Tracker,
    VictimPolicy,
    VictimRanking,
)
from kai.engine.framework.victims import ANYBODY, VictimRules, VictimSearch, all_of, both
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Task

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """Those that have something to say about pods of one class, each in the order of the configuration."""

    pre_filters: tuple[PreFilter, ...]
    filters: tuple[Filter, ...]
    node_filters: tuple[NodeFilter, ...]
    readiness: tuple[Readiness, ...]
    scorers: tuple[Scorer, ...]
    #: Those that go by more than what the spec demands of nodes.
    particular: tuple[OfClasses, ...]


class Plugins:
    """All plugins of a cycle."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._all = tuple(plugins)
        self._of_classes: tuple[Any, ...] = _those(self._all, OfClasses)
        self._concerned: dict[int, Concerned | None] = {}
        self.trackers: tuple[Tracker, ...] = _those(self._all, Tracker)
        self.ties: tuple[Ties, ...] = _those(self._all, Ties)
        self.job_rankings: tuple[JobRanking, ...] = _those(self._all, JobRanking)
        self.victim_rankings: tuple[VictimRanking, ...] = _those(self._all, VictimRanking)
        self.queue_rankings: tuple[QueueRanking, ...] = _those(self._all, QueueRanking)
        self.quotas: tuple[Quota, ...] = _those(self._all, Quota)
        #: Whether no quota can keep a job from being placed.
        self.unbounded: Callable[[Job], bool] = (
            reduce(both, [each.unbounded for each in self.quotas], None) or _unbounded
        )
        self.entitlements: tuple[Entitlement, ...] = _those(self._all, Entitlement)
        self._victim_policies: tuple[VictimPolicy, ...] = _those(self._all, VictimPolicy)
        self.node_sets: NodeSets | None = next(iter(_those(self._all, NodeSets)), None)

    def concerned(self, cls: TaskClass) -> Concerned | None:
        """Those that have something to say about pods of a class; None where nobody has.

        Plugins are asked once for each class in a cycle; after that it is a look-up.
        """
        if not self._of_classes:
            return None
        try:
            return self._concerned[cls.id]
        except KeyError:
            found = self._concerned[cls.id] = self._ask(cls)
            return found

    @property
    def particulars(self) -> Callable[[Task], Hashable] | None:
        """What they go by beside what a pod's spec demands of nodes; None where there is nothing else."""
        # Not kept: it leads back here, and a circle would wait for a garbage collection.
        return self._particulars if any(map(_is_particular, self._of_classes)) else None

    def _particulars(self, task: Task) -> Hashable:
        concerned = self.concerned(task.cls)
        if concerned is None:
            return ()
        return tuple([each.depends_on(task) for each in concerned.particular])

    def _ask(self, cls: TaskClass) -> Concerned | None:
        some = tuple([each for each in self._of_classes if each.concerns(cls)])
        if not some:
            return None
        return Concerned(
            pre_filters=_those(some, PreFilter),
            filters=_those(some, Filter),
            node_filters=_those(some, NodeFilter),
            readiness=_those(some, Readiness),
            scorers=_those(some, Scorer),
            particular=tuple(filter(_is_particular, some)),
        )

    def victim_rules(self, search: VictimSearch) -> VictimRules:
        """What all of them say to one search for victims; asked once for it, before anything is evicted."""
        if not self._victim_policies:
            return ANYBODY
        if len(self._victim_policies) == 1:
            return self._victim_policies[0].rules(search) or ANYBODY
        rules = [each.rules(search) for each in self._victim_policies]
        return all_of([each for each in rules if each is not None])

    def of(self, kind: type[P]) -> P | None:
        """The plugin of a type, if this cycle needs it."""
        return next((each for each in self._all if isinstance(each, kind)), None)


def _is_particular(plugin: OfClasses) -> bool:
    return type(plugin).depends_on is not OfClasses.depends_on


def _unbounded(job: Job) -> bool:
    del job
    return True


def _those(plugins: tuple[Any, ...], protocol: Any) -> tuple[Any, ...]:
    """Subclasses alone, as the protocols ask for: ``isinstance`` of an abstract class takes far longer."""
    return tuple([each for each in plugins if protocol in type(each).__mro__])
