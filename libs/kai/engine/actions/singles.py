"""Placing jobs whose next chunk is one plain pod: the same rules as for all, without a transaction.

Nothing can fail half-way here, so there is nothing to take back, and pods that go to one node in a row are
placed together. Whatever is not plain is left to
:func:`~kai.engine.framework.allocation.allocate_job`: shared devices, plugins with an opinion on the class or
a log of placements, nominations, topology, pods that have to wait, and everything that finds no place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kai.engine.framework.session import Session
from kai.engine.queueing.chunks import only_task, tasks_to_allocate
from kai.snapshot.rows import Job, Task

#: Takes jobs that come next, while each has a task to go on with; returns these tasks.
Following: TypeAlias = Callable[[Callable[[Job], Task | None]], list[Task]]


def place(session: Session, job: Job, following: Following | None) -> list[Job]:
    """Place and commit the next pod of a job, and of those after it the pods that go to the same node.

    Returns the jobs that got their pod; none if the job is not that simple, and then nothing is decided.
    """
    if not _plain(job):
        return []
    task = only_task(job)
    alone = task is not None
    if task is None:
        tasks = tasks_to_allocate(job)
        if len(tasks) != 1:
            return []
        (task,) = tasks
    if not session.plain(task.cls) or task.nominated or session.over_capacity(job, (task,)):
        return []
    seats = session.seating.at_best(task.cls)
    if seats is None:
        return []
    placed = [task]
    # A job with more pods competes again before those behind it, so nobody may be taken along.
    if following is not None and alone and session.unbounded(job):

        def seated(other: Job) -> Task | None:
            task = only_task(other)
            if task is None or task.nominated or not (_plain(other) and session.unbounded(other)):
                return None
            return task if seats.take(task.cls) else None

        placed += following(seated)
    session.decisions.bind(placed, session.nodes.nodes[seats.row])
    return [task.job for task in placed if task.job is not None]


def _plain(job: Job) -> bool:
    """Whether the next pod of a job stands for itself."""
    single = job.single
    return single is not None and single.min_member <= 1 and not single.pipelined and not job.has_constraint
