"""The only place that changes what nodes, queues and pod groups are charged.

Every entry has an exact inverse: amounts are integers, so doing and undoing in any order leaves no trace.

What a shared device counts against its node says :class:`~kai.snapshot.amounts.SharedDevice`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kai.model.decisions import Allotment
from kai.model.ids import GpuGroup, PodGroupKey
from kai.snapshot.amounts import GPU_CENTI, NOTHING, Amounts, SharedClaim, SharedDevice
from kai.snapshot.classes import TaskClass
from kai.snapshot.core import core_amounts
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Job, Node, PodSet, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, ACTIVE_USED, ALIVE, Status
from kai.snapshot.table import NodeTable, cells

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
_STEPS: Final = [
    [tuple(b - a for a, b in zip(_COUNTS[old], _COUNTS[new], strict=True)) for new in Status]
    for old in Status
]
#: Half of what a sum can hold; pods that are not vast cannot use up the other half.
_WIDEST: Final = 1 << 62


@dataclass(slots=True)
class _Sums:
    """What many tasks are charged, added up."""

    #: By class the row of each task's node, of whose idle resources it holds its own.
    rows: dict[TaskClass, list[int]] = field(default_factory=dict)
    #: By queue, whether others may take it, and what each task is charged: how many there are.
    tasks: dict[tuple[Queue, bool, Amounts], int] = field(default_factory=dict)
    #: Semi-preemptible jobs of such tasks.
    jobs: dict[PodGroupKey, Job] = field(default_factory=dict)


class Ledger:
    """Charges tasks to nodes, queues and pod groups."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        #: What was not entered yet, while :meth:`at_once`.
        self._late: _Sums | None = None
        #: Mirrors of the queues' amounts, float64 ``[queues, 3]`` with GPUs in devices.
        self.set_queues(())

    def set_queues(self, queues: Sequence[Queue]) -> None:
        """These queues from now on, parents before children; nothing is charged to any.

        After: each has its position as row and sums of zero, and so have the mirrors. What tasks are charged
        has to be entered again (:meth:`recharge`, :meth:`enqueue`).
        """
        for row, queue in enumerate(queues):
            queue.row = row
            queue.allocated, queue.non_preemptible, queue.pending = [0, 0, 0], [0, 0, 0], [0, 0, 0]
            queue.version += 1
        count = len(queues)
        self.allocated: NDArray[np.float64] = np.zeros((max(count, 1), 3))
        self.non_preemptible: NDArray[np.float64] = np.zeros((max(count, 1), 3))
        self._allocated_cells = cells(self.allocated)
        #: What the cores of semi-preemptible jobs are charged as non-preemptible, where that is anything.
        self._cores: dict[PodGroupKey, Amounts] = {}
        self._non_preemptible_cells = cells(self.non_preemptible)

    def clear(self, queues: Sequence[Queue]) -> None:
        """Nothing is charged to any node or queue.

        All that a node offers is idle. Rows of tasks are left as they are: whoever calls clears them, too.
        """
        self.set_queues(queues)
        self.nodes.clear_charges()
        if self._late is not None:
            self._late = _Sums()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Enter what many tasks are charged in one step, at the end.

        Meanwhile nobody may read sums, and nodes and queues stay as they are.
        """
        self._late = _Sums()
        try:
            yield
        finally:
            self._catch_up()
            self._late = None

    def _catch_up(self) -> None:
        late = self._late
        if late is None:
            return
        self._late = _Sums()
        for (queue, preemptible, (cpu, memory, centi)), count in late.tasks.items():
            self._charge(queue, preemptible, cpu * count, memory * count, centi * count)
        for job in late.jobs.values():
            self.settle_core(job)
        offered, idle, touched = self.nodes.cells_allocatable, self.nodes.cells_idle, self.nodes.touched
        for cls, rows in late.rows.items():
            for row, count in Counter(rows).items():
                for column, amount in cls.items:
                    if offered[row, column] > 0:
                        idle[row, column] -= amount * count
                touched.append(row)

    # --- pod groups ----------------------------------------------------------------------------
    def join(self, task: Task, job: Job, pod_set: PodSet) -> None:
        """Count a task, whatever its status, in its pod group.

        Before: it is in none. After: the counters of its pod set and job count it by its status, and the
        order of the pod set has to be found again.
        """
        task.job, task.pod_set = job, pod_set
        pod_set.tasks[task.uid] = task
        pod_set.ordered = None
        self._move(job, pod_set, _COUNTS[task.status])

    def leave(self, task: Task) -> None:
        """The inverse of :meth:`join`.

        Before: its queue is charged nothing for it, since that is found by its job.
        """
        job, pod_set = task.job, task.pod_set
        assert job is not None
        assert pod_set is not None
        self._move(job, pod_set, _NEGATED[task.status])
        del pod_set.tasks[task.uid]
        pod_set.ordered = None
        task.job = task.pod_set = None

    def set_status(self, task: Task, status: Status, *, virtual: bool = False) -> None:
        """Change the state of a task, and the counters of its pod group; ``virtual``: it is only tried.

        No sum of a node or queue changes. Where a task is pending again its pod set is looked through from
        the start. A task without a job has no counters.
        """
        if task.job is not None and task.pod_set is not None:
            self._move(task.job, task.pod_set, _STEPS[task.status][status])
            if status is Status.PENDING:
                task.pod_set.cursor = 0
        task.status, task.virtual = status, virtual

    @staticmethod
    def confirm(task: Task) -> None:
        """What was only tried with a task is decided."""
        task.virtual = False

    @staticmethod
    def allot(task: Task, allotment: Allotment | None) -> None:
        """What plugins found for a task where it is; whoever binds it is told."""
        task.allotment = allotment

    @staticmethod
    def _move(job: Job, pod_set: PodSet, step: tuple[int, ...]) -> None:
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

    # --- queues --------------------------------------------------------------------------------
    def charge(self, task: Task, gpu_memory_mib: int) -> None:
        """Charge a task to its queue and all above; GPUs have ``gpu_memory_mib`` where it runs.

        Before: it has a job, and is charged nothing. After: ``charged`` says what, and that is what
        :meth:`discharge` takes back, whatever its class is by then. Costs time by the depth of the queue.
        """
        job = task.job
        assert job is not None
        task.charged = charged = task.cls.charge(gpu_memory_mib)
        if self._late is None:
            self._charge(job.queue, job.preemptible or job.semi_preemptible, *charged)
            if job.semi_preemptible:
                self.settle_core(job)
        else:
            tasks, key = self._late.tasks, (job.queue, job.preemptible or job.semi_preemptible, charged)
            tasks[key] = tasks.get(key, 0) + 1
            if job.semi_preemptible:
                self._late.jobs[job.key] = job

    def discharge(self, task: Task) -> None:
        """The inverse of :meth:`charge`.

        Before: it is in the same queue, and that is linked as it was.
        """
        job, charged = task.job, task.charged
        assert job is not None
        assert charged is not None
        cpu, memory, centi = charged
        self._charge(job.queue, job.preemptible or job.semi_preemptible, -cpu, -memory, -centi)
        task.charged = None
        if job.semi_preemptible:
            self.settle_core(job)

    def recharge(self, task: Task, charged: Amounts) -> None:
        """Charge again what was discharged before.

        Before: its queue and those above say nothing of it; ``charged`` still may, as after
        :meth:`set_queues`.
        """
        job, task.charged = task.job, charged
        assert job is not None
        self._charge(job.queue, job.preemptible or job.semi_preemptible, *charged)
        self.settle_core(job)

    def settle_core(self, job: Job) -> None:
        """Let its queues be charged as non-preemptible for the core of a semi-preemptible job as it is now.

        For whoever changed what a core depends on beside what tasks are charged: their order, and how many
        are needed. Does nothing for other jobs; for such a job it takes time by the number of its pods.
        """
        if not job.semi_preemptible:
            return
        before, core = self._cores.get(job.key, NOTHING), core_amounts(job)
        if core == before:
            return
        if core == NOTHING:
            del self._cores[job.key]
        else:
            self._cores[job.key] = core
        cpu, memory, centi = (new - old for new, old in zip(core, before, strict=True))
        for queue in job.queue.path:
            queue.version += 1
            self._charge_non_preemptible(queue, cpu, memory, centi)

    def _charge(self, leaf: Queue, preemptible: bool, cpu: int, memory: int, centi: int) -> None:
        mirror = self._allocated_cells
        for queue in leaf.path:
            queue.version += 1
            held = queue.allocated
            row = queue.row
            held[0] += cpu
            held[1] += memory
            mirror[row, 0] = held[0]
            mirror[row, 1] = held[1]
            if centi:
                held[2] += centi
                mirror[row, 2] = held[2] / GPU_CENTI
            if not preemptible:
                self._charge_non_preemptible(queue, cpu, memory, centi)

    def enqueue(self, task: Task, gpu_memory_mib: int) -> None:
        """Count what a pending task requests in its queue and all above; as :meth:`charge`.

        Before: it is pending, and has a job. The row does not remember it.
        """
        job = task.job
        assert job is not None
        cpu, memory, centi = task.cls.charge(gpu_memory_mib)
        for queue in job.queue.path:
            requested = queue.pending
            requested[0] += cpu
            requested[1] += memory
            requested[2] += centi

    def dequeue(self, task: Task, gpu_memory_mib: int) -> None:
        """The inverse of :meth:`enqueue`, with the same memory."""
        job = task.job
        assert job is not None
        cpu, memory, centi = task.cls.charge(gpu_memory_mib)
        for queue in job.queue.path:
            requested = queue.pending
            requested[0] -= cpu
            requested[1] -= memory
            requested[2] -= centi

    def _charge_non_preemptible(self, queue: Queue, cpu: int, memory: int, centi: int) -> None:
        held = queue.non_preemptible
        held[0] += cpu
        held[1] += memory
        held[2] += centi
        mirror, row = self._non_preemptible_cells, queue.row
        mirror[row, 0] = held[0]
        mirror[row, 1] = held[1]
        mirror[row, 2] = held[2] / GPU_CENTI

    # --- both ----------------------------------------------------------------------------------
    def admit(self, tasks: Sequence[Task], node: Node) -> None:
        """Pending tasks of one class that share no devices are being bound to a node: all sums in one step.

        They hold idle resources of the node, and their queues are charged what was requested of them.
        """
        cls, count, row = tasks[0].cls, len(tasks), node.row
        offered, idle = self.nodes.cells_allocatable, self.nodes.cells_idle
        for column, amount in cls.items:
            if offered[row, column] > 0:
                idle[row, column] -= amount * count
        node.legacy_mig += cls.legacy_mig * count
        charged = cls.charge(node.gpu_memory_mib)
        step = _STEPS[Status.PENDING][Status.BINDING]
        leaves: dict[tuple[int, bool], tuple[Queue, int]] = {}
        semi: dict[PodGroupKey, Job] = {}
        for task in tasks:
            job, pod_set = task.job, task.pod_set
            assert job is not None
            assert pod_set is not None
            task.node, task.groups, task.releasing, task.charged = node, (), False, charged
            task.status, task.virtual = Status.BINDING, False
            node.tasks[task.uid] = task
            for claim, gpus in task.claims:
                self._claim(node, claim, gpus, 1, 0, 0)
            self._move(job, pod_set, step)
            leaf = (job.queue.row, job.preemptible or job.semi_preemptible)
            known = leaves.get(leaf)
            leaves[leaf] = (job.queue, known[1] + 1 if known is not None else 1)
            if job.semi_preemptible:
                semi[job.key] = job
        for (_, preemptible), (queue, pods) in leaves.items():
            self._grant(queue, preemptible, charged, pods)
        for job in semi.values():
            self.settle_core(job)
        self.nodes.touched.append(row)

    def _grant(self, leaf: Queue, preemptible: bool, amounts: Amounts, pods: int) -> None:
        """Charge a queue and all above for so many pods, which no longer request it."""
        cpu, memory, centi = (amount * pods for amount in amounts)
        mirror = self._allocated_cells
        for queue in leaf.path:
            queue.version += 1
            held, requested, row = queue.allocated, queue.pending, queue.row
            held[0] += cpu
            held[1] += memory
            held[2] += centi
            requested[0] -= cpu
            requested[1] -= memory
            requested[2] -= centi
            mirror[row, 0] = held[0]
            mirror[row, 1] = held[1]
            mirror[row, 2] = held[2] / GPU_CENTI
            if not preemptible:
                self._charge_non_preemptible(queue, cpu, memory, centi)

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
        sums: dict[tuple[int, bool], list[Any]] = {}
        semi: dict[PodGroupKey, Job] = {}
        for task in tasks:
            job, pod_set, node, charged = task.job, task.pod_set, task.node, task.charged
            assert job is not None
            assert pod_set is not None
            assert node is not None
            assert charged is not None
            rows.setdefault(task.cls, []).append(node.row)
            leaf = (job.queue.row, job.preemptible or job.semi_preemptible)
            total = sums.get(leaf)
            if total is None:
                total = sums[leaf] = [job.queue, 0, 0, 0]
            total[1] += charged.cpu_millis
            total[2] += charged.memory_bytes
            total[3] += charged.gpu_centi
            if job.semi_preemptible:
                semi[job.key] = job
            self._move(job, pod_set, _STEPS[task.status][Status.RELEASING])
            task.releasing, task.charged = True, None
            task.status, task.virtual = Status.RELEASING, True
        for (_, preemptible), (queue, cpu, memory, centi) in sums.items():
            self._charge(queue, preemptible, -cpu, -memory, -centi)
        for job in semi.values():
            self.settle_core(job)
        offered, releasing, touched = self.nodes.allocatable, self.nodes.releasing, self.nodes.touched
        for cls, where in rows.items():
            counts = np.bincount(where, minlength=len(self.nodes))
            for column, amount in cls.items:
                releasing[:, column] += np.where(offered[:, column] > 0, amount * counts, 0)
            touched += np.flatnonzero(counts).tolist()

    # --- nodes ---------------------------------------------------------------------------------
    def bears(self, task: Task, node: Node) -> bool:
        """Whether a node's sums, which are 64 bits wide, can take another pod that asks for the absurd.

        Catches up with :meth:`at_once` first, so it is a question for classes that are ``vast`` only.
        """
        self._catch_up()
        idle, row = self.nodes.cells_idle, node.row
        return all(idle[row, column] - amount > -_WIDEST for column, amount in task.cls.items)

    def hold(self, task: Task, node: Node, groups: tuple[GpuGroup, ...], *, releasing: bool) -> None:
        """The task takes its resources from a node's idle ones; they are being released if so said.

        Before: it holds nothing. After: what the node offers of all that it asks for is idle no more, each of
        the shared devices ``groups`` has a part of it, one for each device, and each of its GPU claims a user
        more. Nothing is checked: idle amounts may be negative afterwards. Status and queue are not touched.
        """
        cls = task.cls
        task.node, task.groups, task.releasing = node, groups, releasing
        node.tasks[task.uid] = task
        if cls.legacy_mig:
            node.legacy_mig += 1
        if self._late is not None and not (
            releasing or cls.vast or (task.facts is not None and task.facts.reservation)
        ):
            rows = self._late.rows.get(cls)
            if rows is None:
                rows = self._late.rows[cls] = []
            rows.append(node.row)
        else:
            self._items(task, node, self.nodes.cells_idle, -1)
            self.nodes.touched.append(node.row)
        if releasing:
            self._items(task, node, self.nodes.cells_releasing, 1)
        if groups:
            size = task.cls.device_memory(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, size, size if releasing else 0, 0)
        for claim, gpus in task.claims:
            self._claim(node, claim, gpus, 1, 1 if releasing else 0, 0)

    def unhold(self, task: Task) -> None:
        """The inverse of :meth:`hold`.

        Before: it holds something. What is promised to it, there or elsewhere, stays promised.
        """
        node, groups, releasing = task.node, task.groups, task.releasing
        assert node is not None
        node.legacy_mig -= task.cls.legacy_mig
        self._items(task, node, self.nodes.cells_idle, 1)
        if releasing:
            self._items(task, node, self.nodes.cells_releasing, -1)
        if groups:
            size = task.cls.device_memory(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, -size, -size if releasing else 0, 0)
        for claim, gpus in task.claims:
            self._claim(node, claim, gpus, -1, -1 if releasing else 0, 0)
        if task.pipelined_node is not node:
            del node.tasks[task.uid]
        task.node, task.groups, task.releasing = None, (), None
        self.nodes.touched.append(node.row)

    def set_releasing(self, task: Task, *, releasing: bool) -> None:
        """Begin to release what a task holds, or stop to.

        What is being released is not idle yet. Nothing changes where the row says so already, or holds
        nothing.
        """
        node = task.node
        if node is None or task.releasing is releasing:
            task.releasing = None if node is None else releasing
            return
        task.releasing = releasing
        sign = 1 if releasing else -1
        self._items(task, node, self.nodes.cells_releasing, sign)
        if task.groups:
            size = sign * task.cls.device_memory(node.gpu_memory_mib)
            for group in task.groups:
                self._share(node, group, 0, size, 0)
        for claim, gpus in task.claims:
            self._claim(node, claim, gpus, 0, sign, 0)
        self.nodes.touched.append(node.row)

    def pipeline(self, task: Task, node: Node, groups: tuple[GpuGroup, ...]) -> None:
        """The task is promised resources that are being released.

        Before: nothing is promised to it; it may hold something, there or elsewhere. Nothing is checked:
        where idle resources are promised as well, the releasing amounts are negative afterwards.
        """
        task.pipelined_node, task.pipelined_groups = node, groups
        node.tasks[task.uid] = task
        self._items(task, node, self.nodes.cells_releasing, -1)
        if groups:
            size = task.cls.device_memory(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, 0, 0, size)
        for claim, gpus in task.claims:
            self._claim(node, claim, gpus, 0, 0, 1)
        self.nodes.touched.append(node.row)

    def unpipeline(self, task: Task) -> None:
        """The inverse of :meth:`pipeline`.

        Before: something is promised to it. What it holds it goes on to hold.
        """
        node, groups = task.pipelined_node, task.pipelined_groups
        assert node is not None
        self._items(task, node, self.nodes.cells_releasing, 1)
        if groups:
            size = task.cls.device_memory(node.gpu_memory_mib)
            for group in groups:
                self._share(node, group, 0, 0, -size)
        for claim, gpus in task.claims:
            self._claim(node, claim, gpus, 0, 0, -1)
        if task.node is not node:
            del node.tasks[task.uid]
        task.pipelined_node, task.pipelined_groups = None, ()
        self.nodes.touched.append(node.row)

    def reserve(self, node: Node, groups: tuple[GpuGroup, ...], *, count: int) -> None:
        """That many reservation pods more, or fewer, stand for each of the groups.

        While nobody has a part of such a device, it is one whole GPU that is not idle and is being released.
        """
        for group in groups:
            self._share(node, group, 0, 0, 0, count)
        self.nodes.touched.append(node.row)

    def _items(self, task: Task, node: Node, cells: Any, sign: int) -> None:
        row, offered = node.row, self.nodes.cells_allocatable
        reserves = task.facts is not None and task.facts.reservation
        for column, amount in task.cls.items:
            if offered[row, column] > 0 and not (reserves and column == GPU):
                cells[row, column] += sign * amount

    def _share(
        self, node: Node, group: GpuGroup, held: int, releasing: int, pipelined: int, reservations: int = 0
    ) -> None:
        """So many MiB more of a shared device, or fewer, are held, being released and promised."""
        device = node.groups.get(group)
        if device is None:
            device = node.groups[group] = SharedDevice()
            self.nodes.sharing[node.name] = node
        gpus, slots = device.whole_gpus(), device.slots()
        device.held_mib += held
        device.releasing_mib += releasing
        device.pipelined_mib += pipelined
        device.reservation_pods += reservations
        self._whole(node, GPU, gpus, device.whole_gpus())
        if self.nodes.cells_allocatable[node.row, PODS] > 0:
            self._whole(node, PODS, slots, device.slots())
        if device.unused and not device.reservation_pods:
            del node.groups[group]
            if not node.groups:
                del self.nodes.sharing[node.name]

    def _claim(self, node: Node, key: str, gpus: int, held: int, releasing: int, pipelined: int) -> None:
        """So many users more, or fewer, hold a claim, release it and were promised it."""
        claim = node.claims.get(key)
        if claim is None:
            claim = node.claims[key] = SharedClaim(gpus=gpus)
        before = claim.whole_gpus()
        claim.users += held
        claim.releasing_users += releasing
        claim.pipelined_users += pipelined
        self._whole(node, GPU, before, claim.whole_gpus())
        if not claim.users and not claim.pipelined_users:
            del node.claims[key]

    def _whole(self, node: Node, column: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        if after != before:
            self.nodes.cells_idle[node.row, column] += after[0] - before[0]
            self.nodes.cells_releasing[node.row, column] += after[1] - before[1]
