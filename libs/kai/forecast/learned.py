"""How long a workload lasts, by how long those that are like it did."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from kai.forecast.curves import Curve, Span
from kai.forecast.patterns import pattern
from kai.forecast.runs import Kin, Lasted
from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroup
from kai.model.rules.top_owner import top_owner
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState

#: So many runs that lasted longer than a workload has run say how much longer it does.
LEAST_RUNS: Final = 5


class Basis(StrEnum):
    """Whose runtimes a workload is taken to have, the nearest first."""

    PATTERN = "pattern"
    OWNER = "owner"
    QUEUE = "queue"
    ALL = "all"
    #: Nobody's: too few of any kind lasted as long.
    NONE = "none"


_Key: TypeAlias = tuple[Basis, str, str]


def keys_of(kin: Kin) -> tuple[_Key, ...]:
    """By which keys runs are collected, the nearest first."""
    return (
        (Basis.PATTERN, kin.namespace, pattern(kin.name)),
        (Basis.OWNER, kin.owner, kin.queue),
        (Basis.QUEUE, kin.queue, ""),
        (Basis.ALL, "", ""),
    )


@dataclass(frozen=True, slots=True)
class Learned:
    """Curves by what workloads have in common, from so many runs."""

    curves: Mapping[_Key, Curve]
    runs: int

    @classmethod
    def of(cls, found: Iterable[Lasted]) -> Learned:
        """What runs teach; those that still go on teach, too."""
        spans: dict[_Key, list[Span]] = {}
        runs = 0
        for each in found:
            runs += 1
            for key in keys_of(each.kin):
                spans.setdefault(key, []).append(each.span)
        return cls({key: Curve.of(listed) for key, listed in spans.items()}, runs)

    def known(self, kin: Kin) -> list[tuple[Basis, Curve]]:
        """The curves that say something of a workload, the nearest first."""
        return [(key[0], self.curves[key]) for key in keys_of(kin) if key in self.curves]


def nearest(known: Iterable[tuple[Basis, Curve]], *, ran: float) -> tuple[Basis, Curve | None]:
    """The first of the curves that says something of a workload that has run so long (seconds)."""
    for basis, curve in known:
        if curve.outlasting(ran) >= LEAST_RUNS:
            return basis, curve
    return Basis.NONE, None


class Drawn:
    """Runtimes for the courses of one state, and on what basis workloads got theirs."""

    def __init__(self, learned: Learned, state: ClusterState) -> None:
        self._learned = learned
        self._state = state
        #: By pod group.
        self.basis: dict[PodGroupKey, Basis] = {}
        #: What is known of each pod group, whatever course it is in.
        self._known: dict[PodGroupKey, list[tuple[Basis, Curve]]] = {}

    def draw(self, job: Job, ran: float, rng: random.Random) -> float | None:
        """How long a workload runs in all, as :data:`kai.simulate.course.Runtimes` say it."""
        known = self._known.get(job.key)
        if known is None:
            kin = kin_of(job, self._state.group_objects.get(job.key))
            known = self._known[job.key] = self._learned.known(kin)
        chance = rng.random()  # drawn for all, so that others' do not depend on whether there is a curve
        self.basis[job.key], curve = nearest(known, ran=ran)
        return None if curve is None else curve.draw(ran, chance)


def kin_of(job: Job, group: PodGroup | None) -> Kin:
    """Whose kind a workload of a state is, as records say it."""
    owner = top_owner(group)
    if owner is None:
        return Kin(job.namespace, job.name, "", job.facts.queue)
    return Kin(job.namespace, owner.name, owner.kind, job.facts.queue)
