"""Budgets for disruptions: who is better left alone while an equal victim can be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kai.engine.queueing.order import NOBODY, JobKey, KeyOfJob
from kai.model.ids import PodGroupKey, PodUid
from kai.model.rules.selectors import label_selector
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import ACTIVE_ALLOCATED

Budget = Mapping[str, Any]
_OLDEST = float("-inf")


def victim_key(state: ClusterState, key: KeyOfJob) -> KeyOfJob:
    """An order of jobs, the last of which is the first victim, from the order in which they are served.

    Among victims of the same ranks those that a budget protects come last. Budgets are read as they are at
    the start of the cycle.
    """
    budgets: dict[str, list[Budget]] = {}
    for each in state.objects[Kind.POD_DISRUPTION_BUDGET].values():
        budgets.setdefault(each["metadata"].get("namespace", ""), []).append(each)
    if not budgets:
        return key
    known: dict[PodGroupKey, bool] = {}

    def protected_last(job: Job, gone: frozenset[PodUid] = NOBODY, /) -> JobKey:
        *ranks, created, name, namespace = key(job, gone)
        if job.key not in known:
            known[job.key] = any(_exceeds(budget, job) for budget in budgets.get(job.namespace, ()))
        return (*ranks, _OLDEST if known[job.key] else created, name, namespace)

    return protected_last


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
