"""Move preemptible pods closer together, so that a preemptible job that waits fits as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from kai.engine.actions import eviction
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.victims import VictimRules
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.pools import possible_victims
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import NO_ROOM, Unschedulable
from kai.engine.search.moves import Moves
from kai.engine.search.scenarios import gpu_need
from kai.engine.search.signatures import Representatives, RepresentativesOfQueues
from kai.engine.search.solver import Validator
from kai.model.decisions import Reason
from kai.snapshot.classes import GpuKind
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Job, Task
from kai.snapshot.status import Status

ACTION = "consolidation"
_NEAR = 1e-6


def run(session: Session) -> None:
    """Serve preemptible jobs that wait; with a cap of 0 nobody, and less than 0 is none."""
    if session.config.params.max_consolidation_preemptees == 0:
        return
    jobs = [job for job in session.allocatable_jobs() if job.preemptible]
    eviction.run(session, _Consolidation(session), jobs)


class _Consolidation:
    action = ACTION
    moves_only = True

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: tuple[int, float, float] | None = None
        #: More jobs could be moved than may be; searches of a cycle only make them more.
        self._many = False
        enabled = session.config.params.use_scheduling_signatures
        self._representatives = Representatives(enabled=enabled, particulars=session.particulars)
        self._of_queues = RepresentativesOfQueues(enabled=enabled, particulars=session.particulars)
        self._most = session.config.params.max_consolidation_preemptees
        self._moves = Moves(session, most=self._most)

    def representatives(self, job: Job) -> Representatives:
        """Those of all queues, as anybody may be moved, unless a limit may have been why one failed.

        What GPU memory is charged depends on the node, so of it the gate does not know.
        """
        if self.session.unbounded(job) or not any(
            task.cls.kind is GpuKind.MEMORY for task in tasks_to_allocate(job, simulation=True)
        ):
            return self._representatives
        return self._of_queues.of(job.queue)

    def admits(self, job: Job) -> bool:
        del job
        return True

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        """Moving frees nothing: what is idle or being released must cover the chunk, and limits allow it.

        A search that a limit lets fail would speak for queues that it does not bind.
        """
        if (over := self.session.over_capacity(job, tasks)) is not None:
            return over
        free, memory = self._free()
        needed = sum(map(gpu_need, tasks))
        needed_memory = sum(task.cls.gpu_memory_mib * task.cls.devices for task in tasks)
        if needed > free + _NEAR or needed_memory > memory:
            return Unschedulable(Reason.POD_SCHEDULING_ERRORS, NO_ROOM)
        return None

    def _free(self) -> tuple[float, float]:
        """GPUs and MiB of GPU memory on ready nodes that are idle or being released."""
        session = self.session
        table = session.nodes
        if self._known is None or self._known[0] != table.log_end:
            ready = session.static.ready
            whole = (table.idle[ready, GPU] + table.releasing[ready, GPU]).astype(np.float64)
            memory = float((whole * session.static.gpu_memory_mib[ready]).sum())
            for column, worth in session.state.resources.mig:
                whole += worth * (table.idle[ready, column] + table.releasing[ready, column])
            partial = 0.0
            for node in table.sharing.values():
                if node.ready:
                    parts = sum(free for _, free in node.free_parts())
                    partial += parts / max(node.gpu_memory_mib, 1)
                    memory += parts
            self._known = (table.log_end, float(whole.sum()) + partial, memory)
        return self._known[1:]

    def victims(self, job: Job, tasks: list[Task], rules: VictimRules) -> VictimSource:
        """All that may move; of more than the cap those that make room, else the last in order.

        Nobody whose queue is gone: he would find no place again.

        Those that make room are looked for without asking anybody, so not where somebody has a say.
        """
        session, most = self.session, self._most
        if (
            most >= 0
            and rules.accepts is None
            and rules.of_queue is None
            and self._more_than(most)
            and (jobs := self._moves.fewest(job, tasks))
        ):
            return session.victims_among(jobs)
        return session.victim_source(
            job, lambda queue: queue.leaf, rules=rules, most=None if most < 0 else most
        )

    def _more_than(self, most: int) -> bool:
        """Whether there are more jobs that could be moved; with one to spare, the job that waits."""
        if not self._many:
            movable = accumulate(
                len(possible_victims(queue.jobs.values()))
                for queue in self.session.state.queue_rows
                if queue.leaf
            )
            self._many = any(count > most + 1 for count in movable)
        return self._many

    def validator(self, job: Job, tasks: list[Task]) -> Validator:
        del job, tasks

        def all_moved(victims: Sequence[Batch]) -> bool:
            return not any(task.status is Status.RELEASING for batch in victims for task in batch.tasks)

        return all_moved

    def message(self, job: Job) -> Message:
        del job

        def text(task: Task, taker: str) -> str:
            where = "other GPUs of its node" if task.pipelined_node is task.node else "another node"
            return f"pod {task.key} is moved to {where}, to make room for workload {taker}"

        return text
