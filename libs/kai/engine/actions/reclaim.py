"""Take back from other queues what a queue is entitled to."""

from __future__ import annotations

from kai.engine.actions import eviction
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.victims import VictimRules
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import Unschedulable
from kai.engine.reasons.amounts import amount_text
from kai.engine.search.signatures import Representatives, RepresentativesOfQueues
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, Queue, Task

ACTION = "reclaim"


def run(session: Session) -> None:
    """Serve all jobs that wait."""
    eviction.run(session, _Reclaim(session), session.allocatable_jobs())


class _Reclaim:
    action = ACTION
    moves_only = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self._representatives = RepresentativesOfQueues(
            enabled=session.config.params.use_scheduling_signatures, particulars=session.particulars
        )
        #: Each queue in words, and what it is entitled to: GPUs, CPU, memory.
        self._entitled: dict[int, tuple[str, ...]] = {}

    def representatives(self, job: Job) -> Representatives:
        return self._representatives.of(job.queue)

    def admits(self, job: Job) -> bool:
        entitlements = self.session.plugins.entitlements
        if not entitlements:
            return False
        tasks = tasks_to_allocate(job, simulation=True)
        for each in entitlements:  # noqa: SIM110 (asked for each job; a generator costs as much as what it asks)
            if not each.may_reclaim(job, tasks):
                return False
        return True

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        # Whoever may be evicted counts in no quota; a failed search would speak for jobs that may be, too.
        return self.session.refused_for_good(job, tasks)

    def victims(self, job: Job, tasks: list[Task], rules: VictimRules) -> VictimSource:
        del tasks
        return self.session.victim_source(job, lambda queue: queue is not job.queue, rules=rules)

    def validator(self, job: Job, tasks: list[Task]) -> None:
        """Any victim of another queue would do."""
        del job, tasks

    def message(self, job: Job) -> Message:
        rows = self.session.state.queue_rows
        held = [queue.allocated.amounts() for queue in rows]
        leveled = self.session.forest.leveled
        known: dict[int, str] = {}

        def text(task: Task, taker: str) -> str:
            assert task.job is not None
            row = task.job.queue.row
            lines = known.get(row)
            if lines is None:
                mine, theirs = leveled(job.queue.row, row)
                giver, gets = self._line(rows[theirs], held[theirs]), self._line(rows[mine], held[mine])
                lines = known[row] = f"from {giver}.\nfor {gets}."
            return f"pod {task.key} was reclaimed by workload {taker}.\n{lines}"

        return text

    def _line(self, queue: Queue, held: Amounts) -> str:
        known = self._entitled.get(queue.row)
        if known is None:
            fair = self.session.shares.fair[queue.row]
            known = self._entitled[queue.row] = (
                f"queue {queue.display_name!r} (priority {queue.priority})",
                *(
                    f"of fair share {amount_text(column, fair[column])} "
                    f"(quota {amount_text(column, queue.deserved[column])})"
                    for column in (GPU, CPU, MEMORY)
                ),
            )
        name, gpus, cpu, memory = known
        return (
            f"{name}: {amount_text(GPU, held.gpu_centi / GPU_CENTI)} {gpus}, "
            f"{amount_text(CPU, held.cpu_millis)} {cpu}, {amount_text(MEMORY, held.memory_bytes)} {memory}"
        )
