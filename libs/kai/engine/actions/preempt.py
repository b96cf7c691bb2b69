"""Take the place of jobs of lower priority in the same queue."""

from __future__ import annotations

from kai.engine.actions import eviction
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.victims import VictimRules
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import NO_ROOM, Unschedulable
from kai.engine.search.signatures import Representatives, RepresentativesOfQueues
from kai.model.decisions import Reason
from kai.snapshot.rows import Job, Queue, Task

ACTION = "preempt"


def run(session: Session) -> None:
    """Serve all jobs that wait."""
    eviction.run(session, _Preempt(session), session.allocatable_jobs())


class _Preempt:
    action = ACTION
    moves_only = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self._representatives = RepresentativesOfQueues(
            enabled=session.config.params.use_scheduling_signatures, particulars=session.particulars
        )
        self._lowest: dict[str, int] = {}

    def representatives(self, job: Job) -> Representatives:
        return self._representatives.of(job.queue)

    def admits(self, job: Job) -> bool:
        del job
        return True

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        for task in tasks:
            if task.cls.constraints.never_preempts:
                text = "it takes nobody's place, as its preemptionPolicy is Never"
                modest = Unschedulable(Reason.POD_SCHEDULING_ERRORS, text, pod=task.key)
                self.session.error(job, modest)
                return modest
        if self._lowest_priority(job.queue) >= job.priority:
            return Unschedulable(Reason.POD_SCHEDULING_ERRORS, NO_ROOM)
        return self.session.refused_for_good(job, tasks)

    def _lowest_priority(self, queue: Queue) -> int:
        """Of all jobs of a queue, whether they run or not: so it is worked out once."""
        known = self._lowest.get(queue.name)
        if known is None:
            known = self._lowest[queue.name] = min(job.priority for job in queue.jobs.values())
        return known

    def victims(self, job: Job, tasks: list[Task], rules: VictimRules) -> VictimSource:
        del tasks
        return self.session.victim_source(
            job,
            lambda queue: queue is job.queue,
            of_job=lambda victim: victim.priority < job.priority,
            rules=rules,
        )

    def validator(self, job: Job, tasks: list[Task]) -> None:
        """Lower priority is enough."""
        del job, tasks

    def message(self, job: Job) -> Message:
        del job
        return lambda task, taker: (
            f"pod {task.key} was preempted by workload {taker}, which has a higher priority"
        )
