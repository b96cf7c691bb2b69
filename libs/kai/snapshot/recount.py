"""All sums and indices built anew from what is known of each object.

A change that fails half-way leaves sums that nobody can trust. They are all functions of the rows' facts and
of the decisions entered there, so they can be found again whatever happened to them.
"""

from __future__ import annotations

from kai.snapshot.amounts import Totals
from kai.snapshot.cluster import Cluster
from kai.snapshot.rows import Job, PodSet, Task
from kai.snapshot.status import Status


def clear(state: Cluster) -> None:
    """Every row holds nothing and every index is empty; tasks, jobs, queues and nodes stay."""
    state.pending_jobs.clear()
    state.foreign = Totals()
    for job in state.jobs.values():
        _clear_job(job)
    state.ledger.clear(state.queue_rows)
    for task in state.tasks.values():
        _clear_task(task)


def _clear_job(job: Job) -> None:
    job.pending = job.active_allocated = job.active_used = job.succeeded = job.gated = 0
    job.version += 1
    job.invalid.clear()
    for pod_set in job.pod_sets.values():
        _clear_pod_set(pod_set)


def _clear_pod_set(pod_set: PodSet) -> None:
    pod_set.tasks.clear()
    pod_set.alive = pod_set.gated = pod_set.pending = pod_set.pipelined = 0
    pod_set.active_allocated = pod_set.active_used = pod_set.succeeded = 0
    pod_set.ordered, pod_set.cursor = None, 0


def _clear_task(task: Task) -> None:
    task.status = Status.PENDING
    task.job = task.pod_set = task.node = task.pipelined_node = None
    task.groups = task.pipelined_groups = ()
    task.releasing = task.charged = task.lingering = task.allotment = None
    task.virtual = False
