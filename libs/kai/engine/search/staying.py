"""Victims that go on where they are, as the job for which they were evicted found its place beside them.

A scenario takes more than is needed: all that its jobs have, or nodes of which the job then used but some.
Who runs is not asked again whether his node would take him: cordons, taints and selectors concern those
that come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kai.engine.framework.session import Session
from kai.engine.framework.statement import Operation, Statement
from kai.engine.queueing.batches import Batch, by_job
from kai.engine.queueing.chunks import may_allocate
from kai.model.arrays import Mask, Positions
from kai.model.ids import PodUid
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import Status


def put_back(
    session: Session, statement: Statement, victims: Sequence[Batch], classes: Collection[TaskClass]
) -> bool:
    """Take evictions back where nobody was promised the pod's room; whether there were any.

    The last to lose their place come first. A job whose minimum would not be reached gets nothing back, as it
    has to be placed as a whole. Costs time by the number of nodes, and by that of the victims' pods if a node
    has room left for any. ``classes`` are those of these pods, at least one.
    """
    if not _any_room(session, classes):
        return False
    promised = statement.promised()
    left = _with_room(session, statement, promised)
    if not left:
        return False
    any_back = False
    for batches in by_job(victims[::-1]).values():
        found = [left[task.uid] for batch in batches for task in batch.tasks if task.uid in left]
        if found and _go_on(session, statement, batches[0].job, found, promised):
            any_back = True
    return any_back


def _any_room(session: Session, classes: Collection[TaskClass]) -> bool:
    """Whether a node has room left for what all classes need at least, or is charged more than it has.

    A pod that goes on needs either: evicted, it left its own room. A node that stopped offering a resource
    is charged nothing for it.
    """
    asked = [dict(cls.items) for cls in classes]
    columns = sorted(set.intersection(*map(set, asked)))
    least = [min(amounts[column] for amounts in asked) for column in columns]
    idle = session.nodes.idle[:, columns]
    enough = idle + session.nodes.releasing[:, columns] >= least
    enough |= session.nodes.allocatable[:, columns] == 0
    return bool((idle < 0).any() or enough.all(axis=1).any())


def _with_room(session: Session, statement: Statement, promised: Collection[int]) -> dict[PodUid, Operation]:
    """Evictions of pods whose room is there; by classes, as most of very many have none."""
    alike: dict[TaskClass, list[tuple[Operation, int]]] = {}
    cls: TaskClass | None = None
    here: list[tuple[Operation, int]] = []
    for eviction in statement.evictions():
        if eviction.node is None:
            continue
        if eviction.task.cls is not cls:
            cls = eviction.task.cls
            here = alike.setdefault(cls, [])
        here.append((eviction, eviction.node.row))
    found: dict[PodUid, Operation] = {}
    for of, evictions in alike.items():
        rows = np.array([row for _, row in evictions])
        for number in np.flatnonzero(_rows_with_room(session, of, rows, promised)).tolist():
            eviction, _ = evictions[number]
            if _ran(eviction):
                found[eviction.task.uid] = eviction
    return found


def _rows_with_room(session: Session, cls: TaskClass, rows: Positions, promised: Collection[int]) -> Mask:
    """``[rows]`` where pods of a class could go on: :func:`_fits` for many."""
    left = ~np.isin(rows, list(promised))
    if cls.shared:
        return left
    columns, amounts = zip(*cls.items, strict=True)
    cells = np.ix_(rows, columns)
    return np.asarray(
        left | (session.nodes.idle[cells] + session.nodes.releasing[cells] >= amounts).all(axis=1)
    )


def _go_on(
    session: Session,
    statement: Statement,
    job: Job,
    evictions: Sequence[Operation],
    promised: Collection[int],
) -> bool:
    """Put pods of a job back, if that makes up what it needs; else nothing changes."""
    checkpoint = statement.checkpoint()
    parts = set()
    for eviction in evictions:
        task, node = eviction.task, eviction.node
        assert node is not None
        if not (_fits(session, task, node, promised) and _is_let(session, job, task, node)):
            continue
        if statement.stay(eviction):
            parts.add(task.pod_set)
    if parts and all(part is None or part.satisfied for part in parts) and _satisfied(job):
        return True
    statement.rollback(checkpoint)
    return False


def _satisfied(job: Job) -> bool:
    return job.single is not None or job.root.satisfied


def _ran(eviction: Operation) -> bool:
    return eviction.was[0] is not Status.PIPELINED and may_allocate(eviction.task, simulation=True)


def _fits(session: Session, task: Task, node: Node, promised: Collection[int]) -> bool:
    """Whether a pod that ran on a node could go on, by what others were promised of it."""
    row = node.row
    if row not in promised:
        return True
    # Parts of devices are looked at where pods are placed.
    if task.cls.shared:
        return False
    idle, releasing = session.nodes.cells_idle, session.nodes.cells_releasing
    return all(idle[row, column] + releasing[row, column] >= amount for column, amount in task.cls.items)


def _is_let(session: Session, job: Job, task: Task, node: Node) -> bool:
    """Whether limits leave room for a pod, and plugins find nothing against it beside those who came."""
    if session.over_capacity(job, (task,)) is not None:
        return False
    if task.cls.kind is GpuKind.MEMORY and any(
        quota.refuse_on(job, task, node) is not None for quota in session.plugins.quotas
    ):
        return False
    return _plugins_agree(session, job, task, node)


def _plugins_agree(session: Session, job: Job, task: Task, node: Node) -> bool:
    concerned = session.concerned(task.cls)
    if concerned is None:
        return True
    if any(each.refuse(task, job) for each in concerned.pre_filters):
        return False
    for each in concerned.filters:
        found = each.mask(task)
        if found is not None and not found[0][node.row]:
            return False
    return not any(each.check(task, node) for each in concerned.node_filters)
