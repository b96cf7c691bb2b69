"""In which order the next cycle will look at the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kai.engine.actions import allocate
from kai.engine.framework.session import Session
from kai.model.decisions import QueuedGroup
from kai.model.ids import NOBODY
from kai.snapshot.rows import Job


@dataclass(frozen=True, slots=True)
class OrderedJob:
    """A pod group by ``namespace/name``, and its priority."""

    id: str
    priority: int


@dataclass(frozen=True, slots=True)
class JobOrder:
    """All jobs in order of service as queues stand now, and those of each leaf queue among themselves."""

    global_order: list[OrderedJob] = field(default_factory=list)
    queue_order: dict[str, list[OrderedJob]] = field(default_factory=dict)


def job_order(session: Session) -> JobOrder:
    """Take jobs as allocate would, without giving any a place."""
    found = JobOrder()
    for job in _served(session):
        entry = OrderedJob(job.key, job.priority)
        found.global_order.append(entry)
        found.queue_order.setdefault(job.queue.name, []).append(entry)
    return found


def service_order(session: Session) -> list[QueuedGroup]:
    """The same order, and what puts each job before the next of its queue."""
    line = list(_served(session))
    ahead: dict[str, str] = {}
    following: dict[str, Job] = {}
    for job in reversed(line):
        after = following.get(job.queue.name)
        ahead[job.key] = _ahead_by(session, job, after) if after is not None else ""
        following[job.queue.name] = job
    return [
        QueuedGroup(pod_group=job.key, queue=job.queue.name, priority=job.priority, ahead_by=ahead[job.key])
        for job in line
    ]


def _served(session: Session) -> Iterator[Job]:
    waiting = session.jobs_in_order(session.allocatable_jobs(), depth=session.depth(allocate.ACTION))
    while (job := waiting.pop()) is not None:
        yield job


def _ahead_by(session: Session, job: Job, after: Job) -> str:
    for ranking in session.plugins.job_rankings:
        if ranking.rank(job, NOBODY) != ranking.rank(after, NOBODY):
            return ranking.goes_by
    return "age" if job.created != after.created else "name"
