"""Budgets for disruptions: who is better left alone while an equal victim can be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kai.engine.queueing.order import JobKey, KeyOfJob
from kai.model.ids import NOBODY, PodGroupKey, PodUid
from kai.snapshot.budgets import Budget, Budgets
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState
from kai.snapshot.status import ACTIVE_ALLOCATED

_LAST = float("-inf")


def victim_key(state: ClusterState, key: KeyOfJob, ranks: Sequence[Callable[[Job], float]] = ()) -> KeyOfJob:
    """An order of jobs, the last of which is the first victim, from the order in which they are served.

    Among victims that ``key`` ranks alike those that a budget protects come last, of the others ``ranks``
    count, the highest first, and then age. Budgets are read as they are at the start of the cycle.
    """
    protected = _protected(state)
    return key if protected is None and not ranks else _OfVictim(key, protected, ranks)


class _OfVictim(KeyOfJob):
    def __init__(
        self,
        served: KeyOfJob,
        protected: Callable[[Job], bool] | None,
        ranks: Sequence[Callable[[Job], float]],
    ) -> None:
        self._served = served
        self._protected = protected
        self._ranks = ranks
        self._spared = (_LAST,) * (len(ranks) + 1)

    def __call__(self, job: Job, gone: frozenset[PodUid] = NOBODY, /) -> JobKey:
        return self._of(job, self._served(job, gone))

    def of_many(self, jobs: Sequence[Job]) -> list[JobKey]:
        return list(map(self._of, jobs, self._served.of_many(jobs)))

    def _of(self, job: Job, served: JobKey) -> JobKey:
        *first, created, name, namespace = served
        spared = self._protected is not None and self._protected(job)
        own = self._spared if spared else (*[rank(job) for rank in self._ranks], created)
        return (*first, *own, name, namespace)


def _protected(state: ClusterState) -> Callable[[Job], bool] | None:
    """Whether a budget protects a job, found out once for each; None where there are no budgets."""
    if not state.budgets:
        return None
    known: dict[PodGroupKey, bool] = {}

    def protected(job: Job) -> bool:
        if job.key not in known:
            known[job.key] = _exceeds_some(state.budgets, job)
        return known[job.key]

    return protected


def _exceeds_some(budgets: Budgets, job: Job) -> bool:
    """Whether some budget does not allow to evict all pods of the job."""
    counted: dict[Budget, int] = {}
    for pod_set in job.pod_sets.values():
        for task in pod_set.tasks.values():
            if not ACTIVE_ALLOCATED[task.status]:
                continue
            for budget in budgets.of(task):
                count = counted[budget] = counted.get(budget, 0) + 1
                if count > budget.allowed:
                    return True
    return False
