"""A transaction over the state: evictions and placements with exact undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kai.engine.framework.protocols import Tracker
from kai.model.ids import GpuGroup
from kai.snapshot.amounts import Amounts
from kai.snapshot.ledger import Ledger
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import Status

EVICT: Final = 0
ALLOCATE: Final = 1
PIPELINE: Final = 2
UNEVICT: Final = 3
#: From so many on, sums are taken over all tasks at once.
_MANY: Final = 16


class Operation(msgspec.Struct, eq=False, gc=False):
    """One step; ``was`` holds what is needed to undo it."""

    kind: int
    task: Task
    was: tuple[Status, bool, Amounts | None]
    node: Node | None = None
    groups: tuple[GpuGroup, ...] = ()
    #: Of an eviction: a later step put the pod back.
    void: bool = False
    #: Of a step that put a pod back: the eviction.
    target: Operation | None = None
    #: Where the logs of tracking plugins stood before.
    marks: tuple[int, ...] = ()


class Statement:
    """An ordered log of operations.

    Everything is in effect at once, as the next step has to see it, and can be taken back to any earlier
    length. A statement must be committed by the session, or discarded.
    """

    __slots__ = ("_ledger", "_trackers", "log")

    def __init__(self, ledger: Ledger, *, trackers: tuple[Tracker, ...] = ()) -> None:
        self._ledger = ledger
        self._trackers = trackers
        self.log: list[Operation] = []

    def checkpoint(self) -> int:
        """A length to roll back to."""
        return len(self.log)

    def evict(self, task: Task) -> None:
        """The pod's resources are being released; one that only waits for some gives up its turn.

        Before: it holds resources that are not being released, or waits for some. After: it is RELEASING,
        virtually, and its queue is not charged any more.
        """
        where = task.pipelined_node or task.node
        operation = Operation(
            EVICT, task, (task.status, task.virtual, task.charged), where, task.pipelined_groups
        )
        if task.charged is not None:
            self._ledger.charges.discharge(task)
        if task.status is Status.PIPELINED:
            self._ledger.holds.unpipeline(task)
        else:
            self._ledger.holds.set_releasing(task, releasing=True)
        self._ledger.counts.set_status(task, Status.RELEASING, virtual=True)
        self.log.append(operation)
        if where is not None:
            for tracker in self._trackers:
                operation.marks += (tracker.mark(),)
                tracker.evicted(task, where)

    def evict_all(self, tasks: Sequence[Task]) -> None:
        """The same for each of many pods."""
        plain = len(tasks) >= _MANY and not self._trackers
        if not plain or not all(map(self._ledger.may_vacate, tasks)):
            for task in tasks:
                self.evict(task)
            return
        self.log += [
            Operation(EVICT, task, (task.status, task.virtual, task.charged), task.node) for task in tasks
        ]
        self._ledger.vacate(tasks)

    def allocate(self, task: Task, node: Node, *, groups: tuple[GpuGroup, ...] = ()) -> None:
        """The pod takes idle resources of a node, and of the shared devices ``groups``, one for each device.

        Before: it is pending, and the caller has seen that it fits; nothing is checked here. After: it is
        ALLOCATED, virtually, and its queue is charged.
        """
        operation = Operation(ALLOCATE, task, (task.status, task.virtual, None), node, groups)
        ledger = self._ledger
        ledger.holds.hold(task, node, groups, releasing=False)
        ledger.counts.set_status(task, Status.ALLOCATED, virtual=True)
        ledger.charges.charge(task, node.gpu_memory_mib)
        self.log.append(operation)
        self._track(operation, node)

    def pipeline(self, task: Task, node: Node, *, groups: tuple[GpuGroup, ...] = ()) -> None:
        """The pod is promised resources of a node that are being released, or idle ones beside them.

        Before: it is pending, or evicted by this statement. After: it is PIPELINED, virtually, and its queue
        is charged. A pod that was evicted from just this node and these devices stays instead, unless others
        were promised something that it had: then the eviction is void.
        """
        if task.virtual and task.status is Status.RELEASING and self._stays(task, node, groups):
            return
        operation = Operation(PIPELINE, task, (task.status, task.virtual, task.charged), node, groups)
        ledger = self._ledger
        ledger.holds.pipeline(task, node, groups)
        ledger.counts.set_status(task, Status.PIPELINED, virtual=True)
        ledger.charges.charge(task, node.gpu_memory_mib)
        self.log.append(operation)
        self._track(operation, node)

    def _track(self, operation: Operation, node: Node) -> None:
        for tracker in self._trackers:
            operation.marks += (tracker.mark(),)
            tracker.placed(operation.task, node)

    def _stays(self, task: Task, node: Node, groups: tuple[GpuGroup, ...]) -> bool:
        """Take an eviction back, if this is where the pod was."""
        log = reversed(self.log)
        eviction = next((op for op in log if op.kind == EVICT and op.task is task and not op.void), None)
        if eviction is None or eviction.node is not node:
            return False
        waited = eviction.was[0] is Status.PIPELINED
        if set(groups) != set(eviction.groups if waited else task.groups):
            return False
        return self.stay(eviction)

    def stay(self, eviction: Operation) -> bool:
        """Take one of :meth:`evictions` back, if trackers let the pod go on with what it had.

        Before: the caller has seen that nobody was promised its room; nothing else is checked here.
        """
        task, node = eviction.task, eviction.node
        assert node is not None
        if not all(tracker.may_stay(task, node) for tracker in self._trackers):
            return False
        operation = Operation(UNEVICT, task, (task.status, task.virtual, task.charged), target=eviction)
        eviction.void = True
        status, virtual, charged = eviction.was
        self._hold_again(eviction)
        self._ledger.counts.set_status(task, status, virtual=virtual)
        if charged is not None:
            self._ledger.charges.recharge(task, charged)
        self.log.append(operation)
        for tracker in self._trackers:
            operation.marks += (tracker.mark(),)
            tracker.stays(task, node)
        return True

    def _hold_again(self, eviction: Operation) -> None:
        if eviction.was[0] is Status.PIPELINED:
            assert eviction.node is not None
            self._ledger.holds.pipeline(eviction.task, eviction.node, eviction.groups)
        else:
            self._ledger.holds.set_releasing(eviction.task, releasing=False)

    def _let_go_again(self, eviction: Operation) -> None:
        if eviction.was[0] is Status.PIPELINED:
            self._ledger.holds.unpipeline(eviction.task)
        else:
            self._ledger.holds.set_releasing(eviction.task, releasing=True)

    def convert_to_pipelined(self, job: Job) -> None:
        """Whatever of a job was allocated waits with the rest of its gang.

        All steps from the first of these are taken again, so checkpoints made since are void: trackers can go
        back no other way than step by step, and forget what came after.
        """
        log = self.log
        first = next(
            (at for at, op in enumerate(log) if op.kind == ALLOCATE and op.task.job is job), len(log)
        )
        again = log[first:]
        self.rollback(first)
        for operation in again:
            self._take_again(operation, waits=operation.task.job is job)

    def _take_again(self, operation: Operation, *, waits: bool) -> None:
        task, node, groups = operation.task, operation.node, operation.groups
        if operation.kind == EVICT:
            self.evict(task)
            return
        if (eviction := operation.target) is not None:
            waited = eviction.was[0] is Status.PIPELINED
            node, groups = eviction.node, eviction.groups if waited else tuple(task.groups)
        assert node is not None
        if operation.kind == ALLOCATE and not waits:
            self.allocate(task, node, groups=groups)
        else:
            self.pipeline(task, node, groups=groups)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything since a checkpoint, the last step first; checkpoints after it are void.

        Rows and sums are as they were then, to the last unit. Costs time by the number of steps undone.
        """
        log = self.log
        while len(log) > checkpoint:
            self._undo(log.pop())

    def operations(self) -> list[Operation]:
        """What is in effect, in order."""
        return [op for op in self.log if not op.void and op.kind != UNEVICT]

    def evictions(self) -> list[Operation]:
        """Those that are in effect, of pods that were moved as well, in order."""
        return [op for op in self.log if op.kind == EVICT and not op.void]

    def promised(self) -> set[int]:
        """Rows of nodes of which somebody was given something, or promised something."""
        return {op.node.row for op in self.log if op.kind in (ALLOCATE, PIPELINE) and op.node is not None}

    def evicted(self) -> list[Task]:
        """Tasks evicted and not put back, moved ones included."""
        return [op.task for op in self.evictions()]

    def _undo(self, operation: Operation) -> None:
        ledger, task = self._ledger, operation.task
        status, virtual, charged = operation.was
        match operation.kind:
            case 0:  # EVICT
                self._hold_again(operation)
                if charged is not None:
                    ledger.charges.recharge(task, charged)
            case 1:  # ALLOCATE
                ledger.charges.discharge(task)
                ledger.holds.unhold(task)
            case 2:  # PIPELINE
                ledger.charges.discharge(task)
                ledger.holds.unpipeline(task)
            case _:  # UNEVICT
                assert operation.target is not None
                operation.target.void = False
                if task.charged is not None:
                    ledger.charges.discharge(task)
                self._let_go_again(operation.target)
        ledger.counts.set_status(task, status, virtual=virtual)
        for tracker, mark in zip(self._trackers, operation.marks, strict=False):
            tracker.undo(mark)

    def check(self) -> None:
        """Assert that the log and the rows agree: the last step of each task is in effect."""
        last = {operation.task.uid: operation for operation in self.operations()}
        for operation in last.values():
            task = operation.task
            if operation.kind == EVICT:
                assert task.status is Status.RELEASING, task
            elif operation.kind == ALLOCATE:
                assert task.status is Status.ALLOCATED, task
                assert task.node is operation.node, task
            else:
                assert task.status is Status.PIPELINED, task
                assert task.pipelined_node is operation.node, task
