"""In which order the next cycle will look at the jobs that wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai.engine.actions import allocate
from kai.engine.framework.session import Session


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
    waiting = session.pending_jobs(session.allocatable_jobs(), depth=session.depth(allocate.ACTION))
    found = JobOrder()
    while (job := waiting.pop()) is not None:
        entry = OrderedJob(job.key, job.priority)
        found.global_order.append(entry)
        found.queue_order.setdefault(job.queue.name, []).append(entry)
    return found
