"""All sums together, and what is entered into several of them in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from kai.model.ids import PodGroupKey
from kai.snapshot.amounts import Amounts
from kai.snapshot.classes import TaskClass
from kai.snapshot.ledger.charges import QueueCharges
from kai.snapshot.ledger.counts import STEPS, GroupCounts, move
from kai.snapshot.ledger.holds import NodeHolds
from kai.snapshot.rows import Job, Node, Queue, Task
from kai.snapshot.status import Status
from kai.snapshot.table import NodeTable


class Ledger:
    """Charges tasks to nodes, queues and pod groups.

    Each part is entered by itself; which of them go together with a change of a task, and in which order,
    knows whoever makes it (:mod:`kai.snapshot.accounts`, a statement of the engine).
    """

    __slots__ = ("_at_once", "_nodes", "charges", "counts", "holds")

    def __init__(self, nodes: NodeTable) -> None:
        self.counts = GroupCounts()
        self.charges = QueueCharges()
        self.holds = NodeHolds(nodes)
        self._nodes = nodes
        self._at_once = False

    def clear(self, queues: Sequence[Queue]) -> None:
        """Nothing is charged to any node or queue.

        All that a node offers is idle. Rows of tasks are left as they are: whoever calls clears them, too.
        """
        self.charges.set_queues(queues)
        self._nodes.clear_charges()
        if self._at_once:
            self._defer()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Enter what many tasks are charged in one step, at the end.

        Meanwhile nobody may read sums, and nodes and queues stay as they are.
        """
        self._defer()
        try:
            yield
        finally:
            self._at_once = False
            try:
                self.charges.enter_deferred()
            finally:
                self.holds.enter_deferred()

    def _defer(self) -> None:
        self._at_once = True
        self.charges.defer()
        self.holds.defer()

    def occupy(self, node: Node, pods: Mapping[TaskClass, int]) -> None:
        """So many pending tasks of each class take idle resources of a node, which are not idle from now on.

        They share no devices, and are entered in all other sums by :meth:`admit`, before anybody reads these.
        """
        offered, idle, row = self._nodes.cells_allocatable, self._nodes.cells_idle, node.row
        for cls, count in pods.items():
            for column, amount in cls.items:
                if offered[row, column] > 0:
                    idle[row, column] -= amount * count
            node.legacy_mig += cls.legacy_mig * count
        self._nodes.touched.append(row)

    def admit(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Pending tasks are being bound, each to its node, whose resources they have taken (:meth:`occupy`).

        Their queues are charged what was requested of them. All sums in one step.
        """
        step = STEPS[Status.PENDING][Status.BINDING]
        counts: dict[tuple[Queue, bool, Amounts], int] = {}
        semi: dict[PodGroupKey, Job] = {}
        for task, node in zip(tasks, nodes, strict=True):
            job, pod_set = task.job, task.pod_set
            assert job is not None
            assert pod_set is not None
            charged = task.cls.charge(node.gpu_memory_mib)
            task.node, task.groups, task.releasing, task.charged = node, (), False, charged
            task.status, task.virtual = Status.BINDING, False
            node.tasks[task.uid] = task
            for claim, gpus in task.claims:
                self.holds.claim(node, claim, gpus, users=1)
            move(job, pod_set, step)
            key = (job.queue, job.preemptible or job.semi_preemptible, charged)
            counts[key] = counts.get(key, 0) + 1
            if job.semi_preemptible:
                semi[job.key] = job
        for (queue, preemptible, charged), pods in counts.items():
            self.charges.grant(queue, charged, pods=pods, preemptible=preemptible)
        for job in semi.values():
            self.charges.settle_core(job)

    @staticmethod
    def may_vacate(task: Task) -> bool:
        """Whether a task holds whole devices only, and where it runs only, as :meth:`vacate` asks."""
        return (
            task.releasing is False
            and task.charged is not None
            and task.pipelined_node is None
            and not task.groups
            and not task.claims
            and (task.facts is None or not task.facts.reservation)
        )

    def vacate(self, tasks: Sequence[Task]) -> None:
        """Tasks are tried as victims: they begin to release what they hold, and their queues are charged no
        longer. All sums in one step.
        """
        rows: dict[TaskClass, list[int]] = {}
        counts: dict[tuple[Queue, bool, Amounts], int] = {}
        semi: dict[PodGroupKey, Job] = {}
        cls: TaskClass | None = None
        here: list[int] = []
        for task in tasks:
            job, node, charged = task.job, task.node, task.charged
            assert job is not None
            assert node is not None
            assert charged is not None
            if task.cls is not cls:
                cls = task.cls
                here = rows.setdefault(cls, [])
            here.append(node.row)
            key = (job.queue, job.preemptible or job.semi_preemptible, charged)
            counts[key] = counts.get(key, 0) + 1
            if job.semi_preemptible:
                semi[job.key] = job
            task.releasing, task.charged = True, None
        self.counts.release(tasks)
        for (queue, preemptible, charged), count in counts.items():
            cpu_millis, memory_bytes, gpu_centi = (amount * count for amount in charged)
            self.charges.add(queue, -cpu_millis, -memory_bytes, -gpu_centi, preemptible=preemptible)
        for job in semi.values():
            self.charges.settle_core(job)
        offered, releasing, touched = self._nodes.allocatable, self._nodes.releasing, self._nodes.touched
        for leaving, where in rows.items():
            there = np.bincount(where, minlength=len(self._nodes))
            for column, amount in leaving.items:
                releasing[:, column] += np.where(offered[:, column] > 0, amount * there, 0)
            touched += np.flatnonzero(there).tolist()
