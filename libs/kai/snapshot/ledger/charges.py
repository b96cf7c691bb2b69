"""What queues are charged for tasks, and what is requested of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kai.model.arrays import Floats
from kai.model.ids import PodGroupKey
from kai.snapshot.amounts import GPU_CENTI, NOTHING, Amounts, Totals
from kai.snapshot.core import core_amounts
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Node, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, Status
from kai.snapshot.table import cells


@dataclass(slots=True)
class _Late:
    """What many tasks are charged, added up."""

    #: By queue, whether others may take it, and what each task is charged: how many there are.
    counts: dict[tuple[Queue, bool, Amounts], int] = field(default_factory=dict)
    #: By queue, and what each pending task requests: how many there are.
    asked: dict[tuple[Queue, Amounts], int] = field(default_factory=dict)
    #: Semi-preemptible jobs of such tasks.
    jobs: dict[PodGroupKey, Job] = field(default_factory=dict)


class QueueCharges:
    """Charges tasks to queues."""

    def __init__(self) -> None:
        #: What was not entered yet, while that is deferred.
        self._late: _Late | None = None
        self.set_queues(())

    def set_queues(self, queues: Sequence[Queue]) -> None:
        """These queues from now on, parents before children; nothing is charged to any.

        After: each has its position as row and sums of zero, and so have the mirrors. What tasks are charged
        has to be entered again (:meth:`recharge`, :meth:`enqueue`).
        """
        for row, queue in enumerate(queues):
            queue.row = row
            queue.allocated, queue.non_preemptible, queue.pending = Totals(), Totals(), Totals()
            queue.version += 1
        count = len(queues)
        #: Mirrors of the queues' amounts, float64 ``[queues, 3]``: CPU millis, memory bytes, GPU devices.
        self.allocated: Floats = np.zeros((max(count, 1), 3))
        self.non_preemptible: Floats = np.zeros((max(count, 1), 3))
        self._allocated_cells = cells(self.allocated)
        #: What the cores of semi-preemptible jobs are charged as non-preemptible, where that is anything.
        self._cores: dict[PodGroupKey, Amounts] = {}
        self._non_preemptible_cells = cells(self.non_preemptible)

    def charge(self, task: Task, gpu_memory_mib: int) -> None:
        """Charge a task to its queue and all above; GPUs have ``gpu_memory_mib`` where it runs.

        Before: it has a job, and is charged nothing. After: ``charged`` says what, and that is what
        :meth:`discharge` takes back, whatever its class is by then. Costs time by the depth of the queue.
        """
        job = task.job
        assert job is not None
        task.charged = charged = task.cls.charge(gpu_memory_mib)
        # Of a semi-preemptible job only the core cannot be taken, which is settled as a whole.
        late = self._late
        if late is None:
            cpu_millis, memory_bytes, gpu_centi = charged
            preemptible = job.preemptible or job.semi_preemptible
            self.add(job.queue, cpu_millis, memory_bytes, gpu_centi, preemptible=preemptible)
            if job.semi_preemptible:
                self.settle_core(job)
        else:
            key = (job.queue, job.preemptible or job.semi_preemptible, charged)
            late.counts[key] = late.counts.get(key, 0) + 1
            if job.semi_preemptible:
                late.jobs[job.key] = job

    def charge_all(
        self, tasks: Sequence[Task], nodes: Sequence[Node | None], least_gpu_memory_mib: int
    ) -> None:
        """:meth:`charge` or :meth:`enqueue` for each of many tasks, by its state.

        Before: it is deferred. ``nodes`` are those on which they hold resources; wherever there is none GPUs
        have ``least_gpu_memory_mib``.
        """
        late = self._late
        assert late is not None
        held, asked = late.counts, late.asked
        for task, node in zip(tasks, nodes, strict=True):
            job, status = task.job, task.status
            assert job is not None
            if ACTIVE_ALLOCATED[status]:
                memory = least_gpu_memory_mib if node is None else node.gpu_memory_mib
                task.charged = charged = task.cls.charge(memory)
                key = (job.queue, job.preemptible or job.semi_preemptible, charged)
                held[key] = held.get(key, 0) + 1
                if job.semi_preemptible:
                    late.jobs[job.key] = job
            elif status is Status.PENDING:
                wanted = (job.queue, task.cls.charge(least_gpu_memory_mib))
                asked[wanted] = asked.get(wanted, 0) + 1

    def discharge(self, task: Task) -> None:
        """The inverse of :meth:`charge`.

        Before: it is in the same queue, and that is linked as it was.
        """
        job, charged = task.job, task.charged
        assert job is not None
        assert charged is not None
        preemptible = job.preemptible or job.semi_preemptible
        cpu_millis, memory_bytes, gpu_centi = charged
        self.add(job.queue, -cpu_millis, -memory_bytes, -gpu_centi, preemptible=preemptible)
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
        cpu_millis, memory_bytes, gpu_centi = charged
        preemptible = job.preemptible or job.semi_preemptible
        self.add(job.queue, cpu_millis, memory_bytes, gpu_centi, preemptible=preemptible)
        self.settle_core(job)

    def linger(self, task: Task, charged: Amounts) -> None:
        """Charge a task that lingers to its queue and all above; as :meth:`charge`, and no part of any core.

        Before: its queue and those above say nothing of it; ``lingering`` still may, as after
        :meth:`set_queues`.
        """
        task.lingering = charged
        self._linger(task, charged, sign=1)

    def end_lingering(self, task: Task) -> None:
        """The inverse of :meth:`linger`; before, it is in the same queue."""
        charged, task.lingering = task.lingering, None
        assert charged is not None
        self._linger(task, charged, sign=-1)

    def _linger(self, task: Task, charged: Amounts, *, sign: int) -> None:
        job = task.job
        assert job is not None
        preemptible = job.preemptible or job.semi_preemptible
        cpu_millis, memory_bytes, gpu_centi = (sign * amount for amount in charged)
        self.add(job.queue, cpu_millis, memory_bytes, gpu_centi, preemptible=preemptible)

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
        cpu_millis, memory_bytes, gpu_centi = (new - old for new, old in zip(core, before, strict=True))
        for queue in job.queue.path:
            queue.version += 1
            self._charge_non_preemptible(queue, cpu_millis, memory_bytes, gpu_centi)

    def enqueue(self, task: Task, gpu_memory_mib: int) -> None:
        """Count what a pending task requests in its queue and all above; as :meth:`charge`.

        Before: it is pending, and has a job. The row does not remember it.
        """
        job = task.job
        assert job is not None
        cpu_millis, memory_bytes, gpu_centi = task.cls.charge(gpu_memory_mib)
        for queue in job.queue.path:
            requested = queue.pending
            requested.cpu_millis += cpu_millis
            requested.memory_bytes += memory_bytes
            requested.gpu_centi += gpu_centi

    def dequeue(self, task: Task, gpu_memory_mib: int) -> None:
        """The inverse of :meth:`enqueue`, with the same memory."""
        job = task.job
        assert job is not None
        cpu_millis, memory_bytes, gpu_centi = task.cls.charge(gpu_memory_mib)
        for queue in job.queue.path:
            requested = queue.pending
            requested.cpu_millis -= cpu_millis
            requested.memory_bytes -= memory_bytes
            requested.gpu_centi -= gpu_centi

    def defer(self) -> None:
        """Charge nothing until :meth:`enter_deferred`; meanwhile nobody may read sums."""
        self._late = _Late()

    def enter_deferred(self) -> None:
        """Enter what was deferred, and defer no more."""
        late, self._late = self._late, None
        assert late is not None
        for (queue, preemptible, (cpu_millis, memory_bytes, gpu_centi)), count in late.counts.items():
            self.add(
                queue, cpu_millis * count, memory_bytes * count, gpu_centi * count, preemptible=preemptible
            )
        for (queue, (cpu_millis, memory_bytes, gpu_centi)), count in late.asked.items():
            for above in queue.path:
                requested = above.pending
                requested.cpu_millis += cpu_millis * count
                requested.memory_bytes += memory_bytes * count
                requested.gpu_centi += gpu_centi * count
        for job in late.jobs.values():
            self.settle_core(job)

    def add(
        self, leaf: Queue, cpu_millis: int, memory_bytes: int, gpu_centi: int, *, preemptible: bool
    ) -> None:
        """Charge a queue and all above for so much more, or less.

        ``preemptible`` says whether others may take it; else it counts as non-preemptible, too. Costs time by
        the depth of the queue.
        """
        mirror = self._allocated_cells
        for queue in leaf.path:
            queue.version += 1
            held = queue.allocated
            row = queue.row
            held.cpu_millis += cpu_millis
            held.memory_bytes += memory_bytes
            mirror[row, CPU] = held.cpu_millis
            mirror[row, MEMORY] = held.memory_bytes
            if gpu_centi:
                held.gpu_centi += gpu_centi
                mirror[row, GPU] = held.gpu_centi / GPU_CENTI
            if not preemptible:
                self._charge_non_preemptible(queue, cpu_millis, memory_bytes, gpu_centi)

    def grant(self, leaf: Queue, amounts: Amounts, *, pods: int, preemptible: bool) -> None:
        """Charge a queue and all above for so many pods alike, which no longer request it; as :meth:`add`."""
        cpu_millis, memory_bytes, gpu_centi = (amount * pods for amount in amounts)
        mirror = self._allocated_cells
        for queue in leaf.path:
            queue.version += 1
            held, requested, row = queue.allocated, queue.pending, queue.row
            held.cpu_millis += cpu_millis
            held.memory_bytes += memory_bytes
            held.gpu_centi += gpu_centi
            requested.cpu_millis -= cpu_millis
            requested.memory_bytes -= memory_bytes
            requested.gpu_centi -= gpu_centi
            mirror[row, CPU] = held.cpu_millis
            mirror[row, MEMORY] = held.memory_bytes
            mirror[row, GPU] = held.gpu_centi / GPU_CENTI
            if not preemptible:
                self._charge_non_preemptible(queue, cpu_millis, memory_bytes, gpu_centi)

    def _charge_non_preemptible(
        self, queue: Queue, cpu_millis: int, memory_bytes: int, gpu_centi: int
    ) -> None:
        held = queue.non_preemptible
        held.cpu_millis += cpu_millis
        held.memory_bytes += memory_bytes
        held.gpu_centi += gpu_centi
        mirror, row = self._non_preemptible_cells, queue.row
        mirror[row, CPU] = held.cpu_millis
        mirror[row, MEMORY] = held.memory_bytes
        mirror[row, GPU] = held.gpu_centi / GPU_CENTI
