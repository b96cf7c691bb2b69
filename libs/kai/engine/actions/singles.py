"""Placing a job whose next chunk is one ordinary pod: the same rules as for all, without a transaction.

Nothing can fail half-way here, so there is nothing to take back. Whatever is not ordinary is left to
:func:`~kai.engine.allocation.allocate_job`: shared devices, plugins with an opinion on the class or a log of
placements, nominations, topology, pods that have to wait, and everything that finds no place.
"""

from __future__ import annotations

from kai.engine.session import Session
from kai.engine.tree import only_task, tasks_to_allocate
from kai.snapshot.rows import Job


def place(session: Session, job: Job) -> bool:
    """Place and commit the next pod of a job, if that is all there is to it; False decides nothing."""
    single = job.single
    if single is None or single.min_member > 1 or single.pipelined or job.has_constraint:
        return False
    task = only_task(job)
    if task is None:
        tasks = tasks_to_allocate(job)
        if len(tasks) != 1:
            return False
        (task,) = tasks
    view = session.ordinary(task.cls)
    if view is None or task.nominated or session.over_capacity(job, (task,)):
        return False
    row = view.seat()
    if row < 0:
        return False
    session.bind(task, session.nodes.nodes[row])
    view.took_seat()
    return True
