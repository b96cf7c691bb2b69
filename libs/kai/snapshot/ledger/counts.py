"""Which tasks a pod group has, and how many of them are in which state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from kai.model.decisions import Allotment
from kai.model.ids import PodUid
from kai.model.remembered import forgettable
from kai.snapshot.rows import Job, PodSet, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, ALIVE, Status

#: What a task in each state adds to: pending, alive, allocated, used, pipelined, gated, succeeded.
_COUNTS: Final = {
    status: tuple(
        map(
            int,
            (
                status is Status.PENDING,
                ALIVE[status],
                ACTIVE_ALLOCATED[status],
                ACTIVE_USED[status],
                status is Status.PIPELINED,
                status is Status.GATED,
                status is Status.SUCCEEDED,
            ),
        )
    )
    for status in Status
}
_NEGATED: Final = {status: tuple(-each for each in counts) for status, counts in _COUNTS.items()}
#: The difference between two states.
STEPS: Final = [
    [tuple(b - a for a, b in zip(_COUNTS[old], _COUNTS[new], strict=True)) for new in Status]
    for old in Status
]


#: Where a state is only left for being released, so that one less is allocated and all else is the same.
_ONE_LESS: Final = [STEPS[old][Status.RELEASING] == (0, 0, -1, 0, 0, 0, 0) for old in Status]


@forgettable
@lru_cache(maxsize=1024)
def _counts(status: Status, times: int) -> tuple[int, ...]:
    """What so many tasks in a state add to."""
    return tuple(times * each for each in _COUNTS[status])


class GroupCounts:
    """Counts tasks in their pod groups."""

    def join(self, task: Task, job: Job, pod_set: PodSet) -> None:
        """Count a task, whatever its status, in its pod group.

        Before: it is in none. After: the counters of its pod set and job count it by its status, and the
        order of the pod set has to be found again.
        """
        task.job, task.pod_set = job, pod_set
        pod_set.tasks[task.uid] = task
        pod_set.ordered = None
        move(job, pod_set, _COUNTS[task.status])

    def join_all(self, tasks: Mapping[PodUid, Task], job: Job, pod_set: PodSet) -> None:
        """:meth:`join` for tasks of one pod set, which they have already."""
        pod_set.tasks.update(tasks)
        pod_set.ordered = None
        if len(tasks) == 1:
            (task,) = tasks.values()
            move(job, pod_set, _COUNTS[task.status])
            return
        statuses = [task.status for task in tasks.values()]
        while statuses:
            status, most = statuses[0], len(statuses)
            statuses = [each for each in statuses if each is not status]
            move(job, pod_set, _counts(status, most - len(statuses)))

    def leave(self, task: Task) -> None:
        """The inverse of :meth:`join`.

        Before: its queue is charged nothing for it, since that is found by its job.
        """
        job, pod_set = task.job, task.pod_set
        assert job is not None
        assert pod_set is not None
        move(job, pod_set, _NEGATED[task.status])
        del pod_set.tasks[task.uid]
        pod_set.ordered = None
        task.job = task.pod_set = None

    def set_status(self, task: Task, status: Status, *, virtual: bool = False) -> None:
        """Change the state of a task, and the counters of its pod group; ``virtual``: it is only tried.

        No sum of a node or queue changes. Where a task is pending again its pod set is looked through from
        the start. A task without a job has no counters.
        """
        if task.job is not None and task.pod_set is not None:
            move(task.job, task.pod_set, STEPS[task.status][status])
            if status is Status.PENDING:
                task.pod_set.cursor = 0
        task.status, task.virtual = status, virtual

    @staticmethod
    def release(tasks: Sequence[Task]) -> None:
        """Many tasks, each of which has a job, are tried as victims; as :meth:`set_status` for each."""
        for task in tasks:
            job, pod_set, status = task.job, task.pod_set, task.status
            assert job is not None
            assert pod_set is not None
            if _ONE_LESS[status]:
                job.version += 1
                job.active_allocated -= 1
                pod_set.active_allocated -= 1
            else:
                move(job, pod_set, STEPS[status][Status.RELEASING])
            task.status, task.virtual = Status.RELEASING, True

    @staticmethod
    def confirm(task: Task) -> None:
        """What was only tried with a task is decided."""
        task.virtual = False

    @staticmethod
    def allot(task: Task, allotment: Allotment | None) -> None:
        """What plugins found for a task where it is; whoever binds it is told."""
        task.allotment = allotment


def move(job: Job, pod_set: PodSet, step: tuple[int, ...]) -> None:
    """Add a difference between two states to the counters of a pod group; what is kept of it is void then."""
    job.version += 1
    pending, alive, allocated, used, pipelined, gated, succeeded = step
    if pending:
        pod_set.pending += pending
        job.pending += pending
    if alive:
        pod_set.alive += alive
    if allocated:
        pod_set.active_allocated += allocated
        job.active_allocated += allocated
    if used:
        pod_set.active_used += used
        job.active_used += used
    if pipelined:
        pod_set.pipelined += pipelined
    if gated:
        pod_set.gated += gated
        job.gated += gated
    if succeeded:
        pod_set.succeeded += succeeded
        job.succeeded += succeeded
