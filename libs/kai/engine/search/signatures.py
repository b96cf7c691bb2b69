"""Skipping jobs that are not easier than one which failed under the same constraints."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

from kai.engine.framework.victims import Why
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.snapshot.rows import Job, PodSet, Queue, SubGroupSet, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

#: What of a pod makes a difference to nodes, beside its signature.
Particulars: TypeAlias = Callable[[Task], Hashable]


def signature(job: Job) -> tuple[object, ...]:
    """Constraints of all pods that are not placed, by pod set, with the topology constraints above them.

    Amounts are no part of it: they say which of two jobs with the same signature is easier to place. Kept on
    the job until a pod of it changes.
    """
    known = job.signature
    if known is None or known[0] != job.version:
        known = job.signature = (job.version, _signature(job))
    return known[1]


def _signature(job: Job) -> tuple[object, ...]:
    parts = []
    for pod_set in job.pod_sets.values():
        waiting = sorted(
            {task.cls.signature for task in pod_set.tasks.values() if not ACTIVE_ALLOCATED[task.status]}
        )
        parts.append((tuple(waiting), _constraints(pod_set)))
    return tuple(sorted(parts, key=repr)) if len(parts) > 1 else tuple(parts)


def _of_chunk(job: Job) -> Hashable:
    """Constraints of those pods that would be placed next: of several kinds others may come first."""
    kinds = {(task.cls.signature, task.pod_set) for task in tasks_to_allocate(job, simulation=True)}
    return frozenset([(sig, _constraints(pod_set)) for sig, pod_set in kinds if pod_set is not None])


def _constraints(pod_set: PodSet) -> tuple[tuple[str, str, str], ...]:
    chain: list[tuple[str, str, str]] = []
    member: PodSet | SubGroupSet | None = pod_set
    while member is not None:
        constraint = member.constraint
        if constraint is not None:
            levels = (constraint.required_topology_level, constraint.preferred_topology_level)
            chain.append((constraint.topology, *levels))
        member = member.parent
    return tuple(chain)


@dataclass(frozen=True, slots=True)
class Representative:
    """A job that failed."""

    #: Ascending: what each task of its next chunk asks for (:attr:`~kai.snapshot.classes.TaskClass.demand`).
    requests: tuple[tuple[int, ...], ...]
    #: Why it found too few victims, where plugins kept some safe.
    why: Why | None = None


class Representatives:
    """The easiest job that failed, for each signature."""

    def __init__(self, *, enabled: bool, particulars: Particulars | None = None) -> None:
        """Nobody failed yet; where not ``enabled`` nobody ever does.

        Args:
            enabled: whether failures are remembered.
            particulars: what else of a pod that waits makes a difference to nodes.
        """
        self._enabled = enabled
        self._particulars = particulars
        self._failed: dict[Hashable, Representative] = {}

    def covering(self, job: Job) -> Representative | None:
        """The one that failed under the same constraints, if a job is no easier."""
        if not self._failed:
            return None
        known = self._failed.get(self._key(job))
        return known if known is not None and not _easier(_requests(job), known.requests) else None

    def failed(self, job: Job, *, why: Why | None = None) -> None:
        """Remember a failure, if it is at least as easy as the one known."""
        if not self._enabled:
            return
        key, requests = self._key(job), _requests(job)
        known = self._failed.get(key)
        if known is None or (
            len(requests) <= len(known.requests)
            and all(_within(mine, theirs) for mine, theirs in zip(requests, known.requests, strict=False))
        ):
            self._failed[key] = Representative(requests, why)

    def _key(self, job: Job) -> Hashable:
        of_task = self._particulars
        if of_task is None:
            return signature(job), _of_chunk(job)
        parts = [
            frozenset([of_task(task) for task in pod_set.tasks.values() if not ACTIVE_ALLOCATED[task.status]])
            for pod_set in job.pod_sets.values()
        ]
        return signature(job), _of_chunk(job), tuple(parts)


class RepresentativesOfQueues:
    """The same, where whom a job could take from depends on its queue: each queue's are compared alone."""

    def __init__(self, *, enabled: bool, particulars: Particulars | None = None) -> None:
        self._enabled = enabled
        self._particulars = particulars
        self._of: dict[str, Representatives] = {}

    def of(self, queue: Queue) -> Representatives:
        """Those of a queue."""
        known = self._of.get(queue.name)
        if known is None:
            known = Representatives(enabled=self._enabled, particulars=self._particulars)
            self._of[queue.name] = known
        return known


def _requests(job: Job) -> tuple[tuple[int, ...], ...]:
    """A search places the next chunk, and says nothing of pods that wait beyond it."""
    return tuple(sorted([task.cls.demand for task in tasks_to_allocate(job, simulation=True)]))


def _within(mine: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(mine, theirs, strict=True))


def _easier(candidate: tuple[tuple[int, ...], ...], failed: tuple[tuple[int, ...], ...]) -> bool:
    """Whether there are fewer pods, or one asks for less than its like of those that failed.

    The rule is the original's, and no order: another of its pods may ask for more.
    """
    if not candidate or not failed or candidate == failed:
        return False
    if len(failed) > len(candidate):
        return True
    for mine, theirs in zip(candidate, failed, strict=False):
        if mine != theirs and _within(mine, theirs):
            return True
    return False
