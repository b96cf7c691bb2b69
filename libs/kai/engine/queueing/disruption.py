"""Budgets for disruptions: who is better left alone while an equal victim can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kai.engine.queueing.order import NOBODY, JobKey, KeyOfJob
from kai.model.ids import PodGroupKey, PodUid
from kai.model.rules.selectors import label_selector
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import ACTIVE_ALLOCATED

Budget = Mapping[str, Any]
_LAST = float("-inf")


def victim_key(state: ClusterState, key: KeyOfJob, ranks: Sequence[Callable[[Job], float]] = ()) -> KeyOfJob:
    """An order of jobs, the last of which is the first victim, from the order in which they are served.

    Among victims that ``key`` ranks alike those that a budget protects come last, of the others ``ranks``
    count, the highest first, and then age. Budgets are read as they are at the start of the cycle.
    """
    protected = _protected(state)
    if protected is None and not ranks:
        return key
    spared = (_LAST,) * (len(ranks) + 1)

    def of_victim(job: Job, gone: frozenset[PodUid] = NOBODY, /) -> JobKey:
        *first, created, name, namespace = key(job, gone)
        own = spared if protected and protected(job) else (*[rank(job) for rank in ranks], created)
        return (*first, *own, name, namespace)

    return of_victim


def _protected(state: ClusterState) -> Callable[[Job], bool] | None:
    """Whether a budget protects a job, found out once for each; None where there are no budgets."""
    budgets: dict[str, list[Budget]] = {}
    for each in state.objects[Kind.POD_DISRUPTION_BUDGET].values():
        budgets.setdefault(each["metadata"].get("namespace", ""), []).append(each)
    if not budgets:
        return None
    known: dict[PodGroupKey, bool] = {}

    def protected(job: Job) -> bool:
        if job.key not in known:
            known[job.key] = any(_exceeds(budget, job) for budget in budgets.get(job.namespace, ()))
        return known[job.key]

    return protected


def _exceeds(budget: Budget, job: Job) -> bool:
    """Whether the budget does not allow to evict all pods of the job."""
    selector = (budget.get("spec") or {}).get("selector")
    allowed = int((budget.get("status") or {}).get("disruptionsAllowed") or 0)
    return sum(map(label_selector(selector), _labels(job))) > allowed


def _labels(job: Job) -> Iterator[Mapping[str, str]]:
    for pod_set in job.pod_sets.values():
        for task in pod_set.tasks.values():
            if ACTIVE_ALLOCATED[task.status]:
                yield task.labels or {}
