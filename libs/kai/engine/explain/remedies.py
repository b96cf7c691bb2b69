"""The smallest changes that would let a job run, each of them tried before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from kai.engine.explain.changes import (
    CONSTRAINTS,
    HOSTNAME,
    AddNodes,
    Bounds,
    Change,
    DropConstraint,
    LowerMinimum,
    RaiseBounds,
    RelaxTopology,
    Tolerate,
)
from kai.engine.explain.trial import Trials
from kai.engine.framework.session import Session
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.requests import asked, asked_firmly
from kai.model.decisions import ResourceVector
from kai.model.objects import Taint
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.resources import CPU, GPU
from kai.snapshot.rows import DEFAULT_POD_SET, Job, Node, Queue, Task

_MEGABYTE: Final = 1_000_000
_TOLERANCE: Final = 1e-6
#: More nodes are not asked for, more kinds of them not tried, and more taints not either.
_MOST_NODES: Final = 64
_MOST_KINDS: Final = 3


def remedies(trials: Trials, session: Session, job: Job) -> Iterator[Change]:
    """Changes that help, each by itself."""
    tasks = tasks_to_allocate(job)
    yield from _bounds(trials, session, job, tasks)
    for change in _constraints(session, job, tasks):
        if trials.helps(change):
            yield change
    yield from _minimum(trials, job, tasks)
    yield from _nodes(trials, session, tasks)


# --- queues ---------------------------------------------------------------------------------------
def _bounds(trials: Trials, session: Session, job: Job, tasks: Sequence[Task]) -> Iterator[Change]:
    """What is too low on the way to the top, all of it together: nothing less can help."""
    if session.unbounded(job):
        return
    amounts = asked(tasks, gpu_memory_mib=session.state.max_gpu_memory_mib)
    path = job.queue.path
    limits = _too_low(path, lambda queue: (queue.limit, queue.allocated), amounts)
    quotas: dict[str, Bounds] = {}
    firm = asked_firmly(job, tasks, gpu_memory_mib=session.state.max_gpu_memory_mib)
    if firm is not None:
        quotas = _too_low(path, lambda queue: (queue.deserved, queue.non_preemptible), firm)
    if (limits or quotas) and trials.helps(change := RaiseBounds(limits=limits, quotas=quotas)):
        yield change
    if quotas and trials.helps(change := RaiseBounds(limits=limits, preemptible=True)):
        yield change


def _too_low(
    path: Sequence[Queue],
    of: Callable[[Queue], tuple[ResourceVector, Sequence[int]]],
    amounts: Amounts,
) -> dict[str, Bounds]:
    """Queues whose bound is below what is held and asked, with what would be enough."""
    found: dict[str, Bounds] = {}
    for queue in path:
        bound, held = of(queue)
        needed = (
            held[0] + amounts[0],
            -(-(held[1] + amounts[1]) // _MEGABYTE) * _MEGABYTE,
            (held[2] + amounts[2]) / GPU_CENTI,
        )
        raised = tuple(
            float(need) if amount and 0 <= known < need - _TOLERANCE else None
            for need, amount, known in zip(needed, amounts, bound, strict=True)
        )
        if any(value is not None for value in raised):
            found[queue.name] = (raised[0], raised[1], raised[2])
    return found


# --- pods -----------------------------------------------------------------------------------------
def _constraints(session: Session, job: Job, tasks: Sequence[Task]) -> Iterator[Change]:
    for name in CONSTRAINTS:
        if any(getattr(task.cls.constraints, name) for task in tasks):
            yield DropConstraint(name)
    if job.has_constraint:
        yield RelaxTopology()
    yield from (Tolerate(taint) for taint in _taints(session, tasks))


def _taints(session: Session, tasks: Sequence[Task]) -> list[Taint]:
    """Those that keep some of the pods from nodes, the ones of most nodes first."""
    if not tasks:
        return []
    count: dict[tuple[str, str, str], int] = {}
    for node in session.nodes.nodes:
        for taint in node.object.spec.taints or ():
            if node.ready and taint.effect in ("NoSchedule", "NoExecute"):
                key = (taint.key, taint.value, taint.effect)
                count[key] = count.get(key, 0) + 1
    known = tasks[0].cls.constraints.tolerations
    by_count = sorted(count, key=lambda key: (-count[key], key))
    found = (Taint(key=key, value=value, effect=effect) for key, value, effect in by_count)
    return [taint for taint in found if Tolerate(taint).toleration not in known][:_MOST_KINDS]


def _minimum(trials: Trials, job: Job, tasks: Sequence[Task]) -> Iterator[Change]:
    """The largest part of a gang that fits."""
    single = job.single
    if single is None or single.name != DEFAULT_POD_SET or len(tasks) < 2:
        return
    running, before = single.active_allocated, single.min_member

    def lowered(pods: int) -> LowerMinimum:
        return LowerMinimum(running + pods, before)

    low, high = 0, len(tasks)
    while high - low > 1:
        middle = (low + high) // 2
        if trials.helps(lowered(middle)):
            low = middle
        else:
            high = middle
    if low and not trials.over:
        yield lowered(low)


# --- nodes ----------------------------------------------------------------------------------------
def _nodes(trials: Trials, session: Session, tasks: Sequence[Task]) -> Iterator[Change]:
    """The fewest nodes of one kind that there is already."""
    kinds = [(_at_least(session, tasks, node), node) for node in _kinds(session, tasks)]
    table = session.nodes.cells_allocatable
    kinds.sort(key=lambda kind: (kind[0], table[kind[1].row, GPU], table[kind[1].row, CPU], kind[1].name))
    for least, node in kinds[:_MOST_KINDS]:
        count = _fewest(partial(_helps, trials, node), least, len(tasks))
        if count and not trials.over:
            yield AddNodes(node.object, count)
            return


def _helps(trials: Trials, node: Node, count: int) -> bool:
    return trials.helps(AddNodes(node.object, count))


def _kinds(session: Session, tasks: Sequence[Task]) -> list[Node]:
    """One node of each kind that could take any of the pods if it were empty."""
    classes = {task.cls.id: task.cls for task in tasks}.values()
    allowed = [session.view(cls).allowed for cls in classes]
    table = session.nodes.cells_allocatable
    found: dict[tuple[object, ...], Node] = {}
    for node in session.nodes.nodes:
        row = node.row
        fits = all(mask[row] for mask in allowed) and all(
            table[row, column] >= amount for cls in classes for column, amount in cls.items
        )
        if fits:
            found.setdefault(_kind(node), node)
    return list(found.values())


def _kind(node: Node) -> tuple[object, ...]:
    """What two nodes agree in if they are of one kind."""
    labels = tuple(sorted((key, value) for key, value in node.object.labels.items() if key != HOSTNAME))
    amounts = tuple(sorted((node.object.status.allocatable or {}).items()))
    taints = tuple((each.key, each.value, each.effect) for each in node.object.spec.taints or ())
    return labels, amounts, taints


def _at_least(session: Session, tasks: Sequence[Task], node: Node) -> int:
    """Fewer nodes of the kind cannot do, whatever else is in the way; for pods that are all alike."""
    cls, table = tasks[0].cls, session.nodes
    if any(task.cls is not cls for task in tasks):
        return 1
    free = table.idle + table.releasing
    room = np.min([free[:, column] // amount for column, amount in cls.items], axis=0).clip(min=0)
    slots = int(room[session.view(cls).allowed].sum())
    each = int(min(table.cells_allocatable[node.row, column] // amount for column, amount in cls.items))
    return max(1, -(-(len(tasks) - slots) // max(each, 1)))


def _fewest(helps: Callable[[int], bool], least: int, most: int) -> int:
    """The smallest number that helps, between these; 0 if none does, or there would be too many."""
    most = min(most, _MOST_NODES)
    low, high = least - 1, least
    while high < most and not helps(high):
        low, high = high, min(2 * high, most)
    if high > most or (high == most and not helps(most)):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if helps(middle):
            high = middle
        else:
            low = middle
    return high
