"""Give up gangs that lost members and did not get them back in time."""

from __future__ import annotations

from typing import Final

from kai.engine.framework.session import Session
from kai.model.ids import PodGroupKey
from kai.model.words import listed
from kai.snapshot.kept import Carried
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import ACTIVE_ALLOCATED

ACTION = "stalegangeviction"
#: Jobs by key that ran with too few pods when last looked at.
_STALE: Final = Carried[dict[PodGroupKey, Job]](dict, copied=dict)


def run(session: Session) -> None:
    """Look at gangs that have too few pods since they changed, or had when they were last looked at."""
    for job in _maybe_stale(session.state):
        if not is_stale(job):
            if job.stale_since:
                session.state.stale(job, 0.0)
            continue
        if not 0 < job.stale_since <= session.now:  # users write annotations, and clocks differ
            session.state.stale(job, session.now)
        grace = job.facts.staleness_grace
        if grace is None:
            grace = session.config.params.default_staleness_grace_seconds
        if grace >= 0 and session.now - job.stale_since >= grace:
            _evict(session, job)
        elif grace >= 0:
            session.due(job.stale_since + grace)


def _maybe_stale(state: ClusterState) -> list[Job]:
    """Who is stale, or was said to be, of jobs that changed since the last cycle and those stale then."""
    known = _STALE.of(state.kept)
    changed, jobs = {**known, **state.touched_jobs}, state.jobs
    known.clear()
    found: list[Job] = []
    for key in changed:
        job = jobs.get(key)
        if job is None or job.aside is not None:  # that this ends is a change, so it comes again
            continue
        if is_short(job):
            known[key] = job
            found.append(job)
        elif job.stale_since:
            found.append(job)
    return sorted(found, key=lambda job: job.key)


def is_short(job: Job) -> bool:
    """Whether some of its pods hold resources, and not enough do."""
    return job.active_used > 0 and not job.gang_satisfied


def is_stale(job: Job) -> bool:
    """Whether a gang that ran has too few pods left, and none that succeeded."""
    return not (job.succeeded or job.completing) and is_short(job)


def _evict(session: Session, job: Job) -> None:
    """All that it holds, whether others could preempt it or not: a part of a gang does no work.

    Pods that the API server did not let go lately are asked to go later.
    """
    refusals = session.state.eviction_refusals.standing(session.now)
    tasks: list[Task] = []
    for pod_set in job.pod_sets.values():
        for task in pod_set.sorted_tasks():
            if not ACTIVE_ALLOCATED[task.status]:
                continue
            if (refusal := refusals.get(task.uid)) is not None:
                session.due(refusal.until)
            else:
                tasks.append(task)
    if not tasks:
        return
    short = [
        f"{pod_set.active_used} of {pod_set.min_member}"
        + (f" in subgroup {name}" if len(job.pod_sets) > 1 else "")
        for name, pod_set in sorted(job.pod_sets.items())
        if pod_set.active_used < pod_set.min_member
    ]
    statement = session.statement()
    for task in tasks:
        statement.evict(task)
    session.decisions.commit(
        statement,
        action=ACTION,
        message=lambda task, _: (
            f"pod {task.key} is evicted: its gang runs with too few pods ({listed(short)})"
        ),
    )
