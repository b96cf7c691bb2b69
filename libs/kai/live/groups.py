"""How pod groups stand that hold something or wait."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from kai.model import names
from kai.model.objects import PodGroup
from kai.model.rules.top_owner import top_owner
from kai.snapshot.rows import Job, Task
from kai.snapshot.status import ACTIVE_USED, Status


class Standing(IntEnum):
    """What becomes of who holds something; the values are those of the picture."""

    RUNNING = 0
    STARTING = 1
    RELEASED = 2
    PARTLY_WAITING = 3


class Held(NamedTuple):
    """Of somebody who holds something: the name of his queue (empty: none), and how he stands."""

    queue: str
    standing: Standing


class Lacking(NamedTuple):
    """What waits of a pod group: its queue (empty: none), and hundredths of the GPUs that it waits for."""

    queue: str
    gpu_centi: int


def tasks_of(job: Job) -> Iterator[Task]:
    """Its pods, those of no subgroup last."""
    for pod_set in job.pod_sets.values():
        yield from pod_set.tasks.values()
    yield from job.invalid.values()


def held_by(job: Job) -> Held:
    """How a pod group stands that holds something. Costs time by the number of its pods."""
    queue = job.queue.name if job.queue.exists else ""
    if not job.active_allocated:
        return Held(queue, Standing.RELEASED)
    if job.pending or job.gated:
        return Held(queue, Standing.PARTLY_WAITING)
    starting = any(_starting(task) for task in tasks_of(job))
    return Held(queue, Standing.STARTING if starting else Standing.RUNNING)


def held_alone(task: Task) -> Held:
    """The same of a pod that is in no pod group."""
    if task.releasing:
        return Held("", Standing.RELEASED)
    return Held("", Standing.STARTING if _starting(task) else Standing.RUNNING)


def _starting(task: Task) -> bool:
    return ACTIVE_USED[task.status] and task.status in _BEFORE_IT_RUNS


_BEFORE_IT_RUNS = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND)


def lacking(job: Job) -> Lacking | None:
    """What waits of a pod group; None if nothing does. Costs time by the number of its pods."""
    if not (job.pending or job.gated):
        return None
    centi = sum(task.cls.gpu_centi for task in tasks_of(job) if waits(task))
    return Lacking(job.queue.name if job.queue.exists else "", centi)


def waits(task: Task) -> bool:
    """Whether a pod waits for its place."""
    return task.status in (Status.PENDING, Status.GATED)


def workload_of(group: PodGroup | None) -> str:
    """``Kind/name`` of what made a pod group; empty where nothing did."""
    owner = top_owner(group)
    return "" if owner is None else str(owner)


def user_of(group: PodGroup | None) -> str:
    """Whose work it is, as it says itself; empty where it does not."""
    if group is None:
        return ""
    return group.labels.get(names.USER_KEY) or group.annotations.get(names.USER_KEY, "")
