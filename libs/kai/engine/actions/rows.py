"""Jobs alike that take the place of one pod each, one after the other: only the last of a row is looked at.

From one such exchange to the next the queue of the takers holds more, that of the victims less, and nodes
offer what they did. So whatever is asked about it - who comes next, who may take, who may lose, who is served
first - is answered yes the less the longer the row is: where the last may take its place, so may those before
it. That holds as long as their queues deserve what they take; beyond that others are asked other questions,
and jobs are served one by one. So they are where plugins of other packages have a say, which nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.queueing.alike import likeness
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.chunks import only_task
from kai.engine.queueing.pending import PendingJobs
from kai.engine.search.solver import Solution
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.rows import Job, Queue, Task

#: Others may wait for the end of searches, so no row takes long.
_LONGEST: Final = 256
#: After so many failures in a row (in powers of two) it is not tried more seldom.
_MOST_SELDOM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A job that was given the places of victims, and what these are told."""

    job: Job
    tasks: Sequence[Task]
    solution: Solution
    message: Message

    @property
    def victim(self) -> Batch:
        """The first."""
        return self.solution.victims[0]

    @property
    def plain(self) -> bool:
        """Whether one pod stands where another one was, the first victim of another queue, gone for good."""
        solution, victim = self.solution, self.victim
        if len(solution.victims) > 1 or victim.number or not solution.source.one_queue:
            return False
        if len(self.tasks) > 1 or len(victim.tasks) > 1 or victim.job.queue is self.job.queue:
            return False
        (task,), (gone,) = self.tasks, victim.tasks
        return gone.pipelined_node is None and task.pipelined_node is gone.node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    job: Job
    task: Task
    victim: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    job: Job
    statement: Statement
    message: Message


class Rows:
    """Rows of exchanges in one action, the longer the better they go."""

    def __init__(
        self,
        session: Session,
        waiting: PendingJobs,
        *,
        action: str,
        message: Callable[[Job], Message],
        exchange: Callable[[Job], Exchange | None],
        ended: Callable[[Job], bool],
    ) -> None:
        """Nothing is exchanged yet.

        Args:
            session: where.
            waiting: the jobs that are still to be served.
            action: which decides.
            message: what is told of the victims of a job; made before they are evicted.
            exchange: lets a job that is next take the place of its first victim, if its queues deserve it and
                a search would find that; what comes back is in effect, and not committed.
            ended: whether time put an end to searches before that of a job.
        """
        self._session = session
        self._waiting = waiting
        self._action = action
        self._message = message
        self._exchange = exchange
        self._ended = ended
        self._length = 1
        self._failures = self._pause = 0

    def follow(self, done: Exchange) -> None:
        """A job took a place, as was decided: let those that are next and alike do so, too.

        After: each of them was served, or is still to be. Whether they are looked at together or one by one
        makes no difference to what is decided.
        """
        if self._pause:
            self._pause -= 1
            return
        last: Exchange | None = done
        while last is not None and last.plain:
            last = self._row_after(last)

    def _row_after(self, done: Exchange) -> Exchange | None:
        """Serve a row; the last of it, None if there is none."""
        pairs = list(self._pairs(done))
        while len(pairs) > 1:
            last = self._served(pairs)
            if last is not None:
                self._length, self._failures = min(2 * self._length, _LONGEST), 0
                return last
            self._length = max(len(pairs) // 2, 1)
            del pairs[self._length :]
            if len(pairs) == 1:
                self._pause = 1 << self._failures
                self._failures = min(self._failures + 1, _MOST_SELDOM)
        return None

    def _pairs(self, done: Exchange) -> Iterator[_Pair]:
        """Jobs that come after one and are alike, each with the victim that would be the first by then."""
        session, cls, source = self._session, done.tasks[0].cls, done.solution.source
        view = session.plain_view(cls)
        if view is None or session.foreign or cls.kind is not GpuKind.WHOLE or view.best() >= 0:
            return
        jobs = self._waiting.upcoming(done.job.queue, self._length + 1)
        like = likeness(jobs[0]) if jobs else None
        #: Of classes of victims, whether they are as large as the takers, and find no other place.
        fit: dict[TaskClass, bool] = {}
        for number, job in enumerate(jobs, done.victim.number + 1):
            task, batch = only_task(job), source.get(number)
            if like is None or likeness(job) != like or task is None or task.cls is not cls or batch is None:
                return
            if job.single is None or job.single.min_member > 1 or not session.unbounded(job):
                return
            if self._ended(job):
                return
            gone, node = batch.tasks[0], batch.tasks[0].node
            if len(batch.tasks) > 1 or batch.job.semi_preemptible or not session.ledger.may_vacate(gone):
                return
            if gone.cls not in fit:
                fit[gone.cls] = self._leaves_just_room(gone.cls, cls)
            if node is None or not fit[gone.cls] or not view.allowed[node.row]:
                return
            if gone.charged != cls.charge(node.gpu_memory_mib):
                return
            yield _Pair(job=job, task=task, victim=batch)

    def _leaves_just_room(self, victim: TaskClass, taker: TaskClass) -> bool:
        """Whether a victim leaves just the room that a taker needs, and would find no other place."""
        view = self._session.plain_view(victim)
        return view is not None and sorted(victim.items) == sorted(taker.items) and view.best() < 0

    def _served(self, pairs: list[_Pair]) -> Exchange | None:
        """Serve all, if the last of them may take its place; None if not, and then nothing is decided."""
        session, last, before = self._session, pairs[-1], pairs[:-1]
        steps = [self._step(pair) for pair in before]
        loser = last.victim.job.queue
        self._changed(before, loser, last.job.queue)
        found = self._exchange(last.job) if self._waiting.comes_next(last.job) else None
        if found is None or not found.plain or found.victim.job is not last.victim.job:
            if found is not None:
                found.solution.statement.rollback()
            for step in reversed(steps):
                step.statement.rollback()
            self._changed(before, loser, last.job.queue)
            return None
        steps.append(_Step(job=last.job, statement=found.solution.statement, message=found.message))
        decisions = session.decisions
        for step in steps:
            decisions.commit(step.statement, action=self._action, evictor=step.job, message=step.message)
        decisions.count("podgroups_acted_on_by_action", self._action, by=len(steps))
        decisions.count("podgroups_scheduled_by_action", self._action, by=len(steps))
        self._waiting.skip(last.job.queue, len(steps))
        self._waiting.touch(loser)
        return found

    def _step(self, pair: _Pair) -> _Step:
        (gone,) = pair.victim.tasks
        node = gone.node
        assert node is not None
        message, statement = self._message(pair.job), self._session.statement()
        statement.evict(gone)
        statement.pipeline(pair.task, node)
        return _Step(job=pair.job, statement=statement, message=message)

    def _changed(self, pairs: list[_Pair], *queues: Queue) -> None:
        """What was kept of victims and queues is not so any more."""
        self._session.pools.mend(task for pair in pairs for task in pair.victim.tasks)
        for queue in queues:
            self._waiting.touch(queue)
