"""The state with something else in it while a block runs; afterwards it is as it was, all caches included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kai.model.objects import Node, TopologyConstraint
from kai.snapshot.classes import TaskClass
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job, PodSet, Queue, SubGroupSet, Task
from kai.snapshot.state import ClusterState

Bounds = tuple[float, float, float]


@contextmanager
def with_bounds(queue: Queue, *, limit: Bounds, deserved: Bounds) -> Iterator[None]:
    """A queue that may hold, or deserves, something else."""
    before = queue.limit, queue.deserved
    queue.limit, queue.deserved = limit, deserved
    try:
        yield
    finally:
        queue.limit, queue.deserved = before


@contextmanager
def preemptible(job: Job) -> Iterator[None]:
    """A job that others may preempt; what it holds stays charged as before."""
    before = job.preemptible, job.semi_preemptible
    job.preemptible, job.semi_preemptible = True, False
    try:
        yield
    finally:
        job.preemptible, job.semi_preemptible = before


@contextmanager
def with_constraint(member: PodSet | SubGroupSet, constraint: TopologyConstraint) -> Iterator[None]:
    """A part of a group that is constrained in another way."""
    before, member.constraint = member.constraint, constraint
    try:
        yield
    finally:
        member.constraint = before


@contextmanager
def with_minimum(state: ClusterState, job: Job, pod_set: PodSet, *, minimum: int) -> Iterator[None]:
    """A job that needs so many pods of a pod set."""
    before = pod_set.min_member
    job.next_tasks.clear()
    pod_set.min_member = minimum
    state.ledger.settle_core(job)
    try:
        yield
    finally:
        pod_set.min_member = before
        state.ledger.settle_core(job)
        job.next_tasks.clear()


@contextmanager
def reclassed(tasks: Sequence[Task], classes: Mapping[int, TaskClass]) -> Iterator[None]:
    """Pods of other classes, by the number of their own.

    For questions only: sums stay as they are, by the classes that were charged.
    """
    before = [task.cls for task in tasks]
    for task in tasks:
        task.cls = classes[task.cls.id]
    try:
        yield
    finally:
        for task, cls in zip(tasks, before, strict=True):
            task.cls = cls


@contextmanager
def with_nodes(state: ClusterState, nodes: Sequence[Node]) -> Iterator[None]:
    """More nodes, which come last by name.

    Rows end as they were, so what was derived from them before stays true: the epoch comes back.
    """
    epoch, version = state.nodes.epoch, state.version
    try:
        for node in nodes:
            state.apply(Kind.NODE, node)
        yield
    finally:
        for node in reversed(nodes):
            state.remove(Kind.NODE, node.metadata.name)
        state.nodes.epoch, state.version = epoch, version
