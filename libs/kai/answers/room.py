"""What is free for pods, in numbers: how much, where, and the largest hole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kai.answers.allowed import Masks, one_of_each_class
from kai.answers.answer import Amounts
from kai.engine.framework.session import Session
from kai.engine.reasons.amounts import amount_text
from kai.model.arrays import Ints, Mask
from kai.model.words import counted
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.resources import GPU, NOBODY, PODS
from kai.snapshot.rows import Node, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Free room for pods of one class, of the resource that is shortest."""

    resource: str
    #: What each pod asks for, of a device where it shares some, in units of ``unit``.
    asked: float
    pods: int
    #: How many of the pods find a place by amounts alone.
    slots: int
    free: float
    nodes: int
    largest: float
    largest_node: str
    #: The resource as amounts write it: GPUs, cores, bytes; of shared devices the unit in words.
    column: int
    shared: str = ""
    #: Whether its pods share devices, each of which is held by one pod more.
    reserves: bool = False

    @property
    def enough(self) -> bool:
        """Whether amounts alone leave a place for each pod."""
        return self.slots >= self.pods

    @property
    def fragmented(self) -> bool:
        """Whether there would be enough in one piece."""
        return self.free >= self.asked * self.pods - 1e-9

    def amount(self, value: float) -> str:
        """An amount of it, in words."""
        if self.shared:
            return f"{value:g} {self.shared}"
        return amount_text(self.column, value, name=self.resource)

    @property
    def text(self) -> str:
        """What is asked for and what there is."""
        if self.column == PODS:
            more = f"nodes that can take it may hold {counted(int(self.free), 'more pod')} of its kind"
            beside = " (a device that is shared anew takes one beside)" if self.reserves else ""
            return f"it waits with {counted(self.pods, 'pod')}, and {more}{beside}"
        asks = f"it asks for {self.amount(self.asked)}"
        if self.pods > 1:
            asks += f" for each of {self.pods} pods, of which {self.slots} find room"
        if not self.nodes:
            return f"{asks}, and none is free on nodes that can take it"
        largest = f"{self.amount(self.largest)} ({self.largest_node})"
        if self.shared:
            return f"{asks}, and the largest free part is {largest}"
        where = f"on {counted(self.nodes, 'node')}"
        return f"{asks}; {self.amount(self.free)} free {where}, the largest hole {largest}"

    @property
    def amounts(self) -> Amounts:
        """The same for programs."""
        return {
            "resource": self.resource,
            "asked": self.asked,
            "pods": self.pods,
            "podsWithRoom": min(self.slots, self.pods),
            "free": self.free,
            "freeNodes": self.nodes,
            "largestHole": self.largest,
            "largestHoleNode": self.largest_node,
        }


def room_for(session: Session, tasks: Sequence[Task]) -> Room:
    """The room for those pods of which the most find none; pods that ask for the same vie for it."""
    counts = Counter(_amounts_of(task.cls) for task in tasks)
    alike: dict[object, list[TaskClass]] = {}
    for task in one_of_each_class(tasks):
        alike.setdefault(_amounts_of(task.cls), []).append(task.cls)
    found = [_of_classes(session, classes, counts[amounts]) for amounts, classes in alike.items()]
    return min(found, key=lambda room: room.slots - room.pods)


def _amounts_of(cls: TaskClass) -> object:
    return cls.items, cls.kind, cls.devices, cls.portion_centi, cls.gpu_memory_mib


def _of_classes(session: Session, classes: Sequence[TaskClass], pods: int) -> Room:
    """Classes that differ in where they may run, not in what they ask for."""
    cls, masks = classes[0], [Masks.of(session, each) for each in classes]
    allowed: Mask = np.logical_or.reduce([each.allowed & each.capable for each in masks])
    free = (session.nodes.idle + session.nodes.releasing).clip(min=0)
    columns = [(column, amount) for column, amount in cls.items if column != NOBODY and amount > 0]
    by_column = {column: np.where(allowed, free[:, column] // amount, 0) for column, amount in columns}
    if cls.shared:
        parts = _parts(session, cls, allowed)
        if PODS in by_column:
            by_column[PODS] = _beside_reservations(session, cls, by_column[PODS])
        fitting = np.array(
            [_devices(each, cls, node) for each, node in zip(parts, session.nodes.nodes, strict=True)]
        )
        slots = np.minimum.reduce([fitting, *by_column.values()]) if by_column else fitting
        if fitting.sum() <= min((each.sum() for each in by_column.values()), default=np.inf):
            return _shared(session, cls, pods, parts, int(slots.sum()))
    else:
        slots = np.minimum.reduce(list(by_column.values()))
    # What a pod needs everywhere, pod slots, is the last to be named.
    column = min(by_column, key=lambda column: (int(by_column[column].sum()), column == PODS, column != GPU))
    amount = dict(columns)[column]
    there = by_column[PODS] if column == PODS else np.where(allowed, free[:, column], 0)
    resources = session.state.resources
    name = resources.names[column] if column != GPU else "nvidia.com/gpu"
    unit = resources.unit(name) if column > PODS else 1
    row = int(there.argmax())
    return Room(
        resource=name,
        asked=amount / unit,
        pods=pods,
        slots=int(slots.sum()),
        free=int(there.sum()) / unit,
        nodes=int((there > 0).sum()),
        largest=int(there[row]) / unit,
        largest_node=session.nodes.nodes[row].name,
        column=column,
        reserves=cls.shared,
    )


def _parts(session: Session, cls: TaskClass, allowed: Mask) -> list[list[int]]:
    """Of each node what is free of each of its devices, in MiB, the most first."""
    del cls
    found: list[list[int]] = []
    for node in session.nodes.nodes:
        if not allowed[node.row]:
            found.append([])
            continue
        table = session.nodes
        whole = max(int(table.cells_idle[node.row, GPU] + table.cells_releasing[node.row, GPU]), 0)
        shared = [free for _, free in node.free_parts()]
        found.append(sorted([*[node.gpu_memory_mib] * whole, *shared], reverse=True))
    return found


def _beside_reservations(session: Session, cls: TaskClass, free: Ints) -> Ints:
    """How many pods each node still counts, where each device that is shared anew takes a pod as well."""
    found = free.copy()
    for node in session.nodes.nodes:
        each = max(cls.part_mib(node.gpu_memory_mib), 1)
        joining = sum(part // each for _, part in node.free_parts()) // max(cls.devices, 1)
        of_device = max(node.gpu_memory_mib // each, 1)
        count = int(free[node.row])
        while count > joining and count - (joining - count) * cls.devices // of_device > free[node.row]:
            count -= 1
        found[node.row] = count
    return found


def _devices(parts: list[int], cls: TaskClass, node: Node) -> int:
    """How many pods find as many devices as they need, each with its part."""
    each = max(cls.part_mib(node.gpu_memory_mib), 1)
    return sum(part // each for part in parts) // max(cls.devices, 1)


def _shared(session: Session, cls: TaskClass, pods: int, parts: list[list[int]], slots: int) -> Room:
    nodes = session.nodes.nodes
    memory = bool(cls.gpu_memory_mib)

    def amount_of(mib: int, node: Node) -> float:
        return float(mib) if memory else mib * GPU_CENTI // node.gpu_memory_mib / GPU_CENTI

    free = [sum(amount_of(part, node) for part in each) for each, node in zip(parts, nodes, strict=True)]
    largest = [amount_of(each[0], node) if each else 0.0 for each, node in zip(parts, nodes, strict=True)]
    row = int(np.argmax(largest))
    return Room(
        resource="gpu-memory" if memory else "gpu-fraction",
        asked=float(cls.gpu_memory_mib) if memory else cls.portion_centi / GPU_CENTI,
        pods=pods,
        slots=slots,
        free=round(sum(free), 2),
        nodes=sum(each > 0 for each in free),
        largest=largest[row],
        largest_node=nodes[row].name,
        column=GPU,
        shared="MiB of a GPU" if memory else "of a GPU",
    )
