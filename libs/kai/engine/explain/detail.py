"""What each node lacks for a pod that found no place, in numbers: a close look, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np

from kai.engine.framework.fit import is_shortage, node_verdicts
from kai.engine.framework.session import Session
from kai.engine.reasons import NO_ROOM
from kai.model.arrays import Mask
from kai.model.condition_texts import MOST_BYTES
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import Status

_ROOM_FOR_REST: Final = len("\nand 9999999 more nodes")
_KINDS = {CPU: "CPU cores", MEMORY: "memory", GPU: "GPUs", PODS: "pod slots"}


def detail_pods(session: Session) -> None:
    """Give every pod that failed one line for each node, as nodes are at the end of the cycle.

    Of many nodes the first by name are told, as far as a condition has room, and how many more there are.
    Costs time by the nodes for each such pod, so it is for those who ask for it.
    """
    for errors in session.errors.all():
        for key in errors.pods:
            task = session.state.task(key)
            if task is not None and task.job is not None and task.status is Status.PENDING:
                errors.pods[key] = "\n".join(_first(f"{NO_ROOM}:", sorted(_lines(session, task))))


def _first(head: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines below a head, as many as there is room for, and how many more there would be."""
    yield head
    left = MOST_BYTES - _ROOM_FOR_REST - len(head.encode())
    for number, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            yield f"and {len(lines) - number} more nodes"
            return
        yield line


def _lines(session: Session, task: Task) -> Iterator[str]:
    assert task.job is not None
    verdicts = _verdicts(session, task, task.job)
    for node, reasons in zip(session.nodes.nodes, verdicts, strict=True):
        yield f"{node.name}: {_why(session, task, node, reasons)}"


def _verdicts(session: Session, task: Task, job: Job) -> Iterator[tuple[str, ...]]:
    """Why each node cannot take a pod that waits, in the order of rows; nothing where it could."""
    concerned = session.concerned(task.cls)
    if concerned is None:
        yield from node_verdicts(session, task, nodes=None, masks=[])
        return
    nowhere = np.zeros(len(session.nodes), dtype=bool)
    refusals = (each.refuse(task, job) for each in concerned.pre_filters)
    masks: list[tuple[Mask, str]] = [(nowhere, why) for why in refusals if why]
    masks += [found for each in concerned.filters if (found := each.mask(task)) is not None]
    verdicts = node_verdicts(session, task, nodes=None, masks=masks)
    for node, reasons in zip(session.nodes.nodes, verdicts, strict=True):
        checks = (each.check(task, node) for each in concerned.node_filters)
        yield reasons or tuple(islice(filter(None, checks), 1))


def _why(session: Session, task: Task, node: Node, reasons: tuple[str, ...]) -> str:
    if not reasons:
        return "could take the pod, but not all that has to run with it"
    text = ", ".join(reasons)
    if not all(map(is_shortage, reasons)):
        return text
    return "; ".join(_shortages(session, task, node)) or text


def _shortages(session: Session, task: Task, node: Node) -> Iterator[str]:
    table, resources = session.nodes, session.state.resources
    for column, requested in task.cls.items:
        capacity = table.cells_allocatable[node.row, column]
        free = table.cells_idle[node.row, column] + table.cells_releasing[node.row, column]
        if free < requested:
            for name, amount in resources.named_amounts(
                column, amount=requested, unoffered=task.cls.unoffered
            ):
                unit = resources.unit(name)
                yield _numbers(
                    _KINDS.get(column, name), amount / unit, (capacity - free) / unit, capacity / unit
                )
    if task.cls.shared:
        yield _shared(session, task, node)


def _shared(session: Session, task: Task, node: Node) -> str:
    """Devices count by their memory: those that are whole, and the best of the parts."""
    cls, memory = task.cls, node.gpu_memory_mib
    devices = session.nodes.cells_allocatable[node.row, GPU]
    free = (
        max(session.nodes.cells_idle[node.row, GPU] + session.nodes.cells_releasing[node.row, GPU], 0)
        * memory
    )
    free += sum(part for _, part in node.free_parts())
    requested = cls.devices * cls.part_mib(memory)
    line = _numbers("GPU memory (MiB)", requested, devices * memory - free, devices * memory)
    return f"{line}, {cls.part_mib(memory)} on each of {cls.devices} device{'s' if cls.devices > 1 else ''}"


def _numbers(kind: str, requested: float, used: float, capacity: float) -> str:
    return f"Insufficient {kind}: requested {requested:.12g}, used {used:.12g}, capacity {capacity:.12g}"
