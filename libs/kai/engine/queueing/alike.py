"""Jobs that wait alike: where one finds no place the next finds none, for the same reason."""

from __future__ import annotations

from typing import TypeAlias

from kai.engine.queueing.chunks import only_task
from kai.snapshot.rows import Job

#: Equal for jobs of one queue that are the same to it and to nodes, but for names and age.
Likeness: TypeAlias = tuple[int, int, bool, float]


def likeness(job: Job) -> Likeness | None:
    """What a job is like that is one pod which waits, and no more; None for others.

    Nor is a pod like any other that was promised a node, or has claims of its own.
    """
    task = only_task(job)
    if (
        task is None
        or task.nominated
        or task.claims
        or job.semi_preemptible
        or job.has_constraint
        or job.invalid
    ):
        return None
    return (task.cls.id, job.priority, job.preemptible, job.facts.preemption_delay)
