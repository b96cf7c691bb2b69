"""Take the place of jobs of lower priority in the same queue."""

from __future__ import annotations

from collections.abc import Sequence

from kai.engine.actions import eviction
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.queueing import capacity
from kai.engine.queueing.minruntime import MinRuntime, keeps_core
from kai.engine.queueing.victims import Batch, VictimSource
from kai.engine.reasons import Unschedulable
from kai.engine.search.signatures import Representatives
from kai.engine.search.solver import Validator
from kai.model.decisions import Reason
from kai.snapshot.rows import Job, Task

ACTION = "preempt"


def run(session: Session) -> None:
    """Serve all jobs that wait."""
    eviction.run(session, _Preempt(session), session.allocatable_jobs())


class _Preempt:
    action = ACTION
    moves_only = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self._representatives: dict[str, Representatives] = {}
        self._min_runtime: MinRuntime = session.min_runtime

    def representatives(self, job: Job) -> Representatives:
        known = self._representatives.get(job.queue.name)
        if known is None:
            enabled = self.session.config.params.use_scheduling_signatures
            known = self._representatives[job.queue.name] = Representatives(enabled=enabled)
        return known

    def admits(self, job: Job) -> bool:
        del job
        return True

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        for task in tasks:
            if task.cls.constraints.never_preempts:
                text = f"pod {task.key} takes nobody's place, as its preemptionPolicy is Never"
                modest = Unschedulable(Reason.POD_SCHEDULING_ERRORS, text)
                self.session.error(job, modest)
                return modest
        if self.session.config.plugin("proportion") is None:
            return None
        return capacity.chunk_over_quota(job, tasks, self.session.state.max_gpu_memory)

    def may_suffice(self, job: Job, tasks: list[Task]) -> bool:
        del job, tasks
        return True

    def victims(self, job: Job, tasks: list[Task]) -> VictimSource:
        del tasks
        protects = self._min_runtime.protects_from_preempt
        return self.session.victim_source(
            job,
            lambda queue: queue is job.queue,
            lambda victim: victim.priority < job.priority and (victim.elastic or not protects(victim)),
        )

    def validator(self, job: Job, tasks: list[Task]) -> Validator:
        del job, tasks
        protects = self._min_runtime.protects_from_preempt

        def within_runtime(victims: Sequence[Batch]) -> bool:
            by_job: dict[str, list[Batch]] = {}
            for batch in victims:
                by_job.setdefault(batch.job.key, []).append(batch)
            return all(
                not protects(batches[0].job) or keeps_core(batches, batches[0].job)
                for batches in by_job.values()
            )

        return within_runtime

    def message(self, job: Job) -> Message:
        del job
        return lambda task, taker: (
            f"pod {task.key} was preempted by workload {taker}, which has a higher priority"
        )
