"""Jobs alike that take the place of one pod each, one after the other: only the last of a row is looked at.

The takers of a row are one pod each, alike, and next in one queue; their victims are those that the search of
the first would come to next, one pod each that is all of its job, charged and placed as the takers are, of
one other queue. From one such exchange to the next the queues from the takers' up to where the lines part
hold more, in each resource, the victims' less, and all else - other queues, what is free on nodes, shares,
limits, the order of other victims - is as it was. So the last may stand for those before it wherever the
answer to a question can only turn to no on that way:

* Is the taker next? Keys of queues grow with what they hold. That of a queue above the victims' goes by the
  next job below it, too, which another one may become as they hold less: so these are to be the same before
  and after. Then they were in between, since of each set of siblings only the victims' line moves.
* May it reclaim? The limits to that are upper ones on what the takers' queue would hold.
* Are the victims of one queue? While the takers' queues deserve what is asked for, other queues may lose what
  they could before; the victims' may until it holds too little of something, and not too much of anything.
* Is the expected victim the first? It was next to the one before it, the order of the others does not change
  as it goes, and who is spared (minimum runtimes, budgets) depends on nobody else.
* Is the taker served before its victim, or that refused its own place by a limit? By keys of queues, as
  above, with equal requests; a queue above its limit was so before. That the last victim may stand where it
  stood makes sure that it was not the node which refused it.
* Does the taker find just that node? Nobody else leaves, nothing fits anywhere before, and what leaves makes
  just the room that is needed: if the node does not hold more than it offers. So each is asked that, as well
  as whether it takes the taker at all. Nor does the victim fit anywhere else, before or after.
* May the victim be taken? Its queue holds too much until it does not. While the takers' queues deserve what
  is asked for, nobody is to be protected from their surplus, and they grow the more saturated.

Beyond what queues deserve others are asked other questions, so there jobs are served one by one. So they are
where plugins of other packages have a say, which nobody knows, where quotas or limits bound the takers, and
where time ended searches before. A row that fails leaves nothing behind but counters of what was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.kernel.view import ClassView
from kai.engine.queueing.alike import Likeness, likeness
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
    #: What it was like while it waited.
    like: Likeness | None
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
        gone = _whole(victim)
        if len(self.tasks) > 1 or gone is None or victim.job.queue is self.job.queue:
            return False
        (task,) = self.tasks
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


def _whole(victim: Batch) -> Task | None:
    """The pod of a victim that is all of its job; None for others."""
    single = victim.job.single
    if single is None or len(single.tasks) > 1 or victim.job.semi_preemptible:
        return None
    return victim.tasks[0]


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
        # Who was passed over is told again by the search for the last.
        alarm = self._session.alarm
        pairs = list(self._pairs(done))
        self._session.alarm = alarm
        while len(pairs) > 1:
            last = self._served(pairs)
            if last is not None:
                self._length, self._failures = min(2 * self._length, _LONGEST), 0
                return last
            self._session.alarm = alarm
            self._length = max(len(pairs) // 2, 1)
            del pairs[self._length :]
            if len(pairs) == 1:
                self._pause = 1 << self._failures
                self._failures = min(self._failures + 1, _MOST_SELDOM)
        return None

    def _pairs(self, done: Exchange) -> Iterator[_Pair]:
        """Jobs that come after one and are alike, each with the victim that would be the first by then."""
        session, cls, source = self._session, done.tasks[0].cls, done.solution.source
        if not session.plain(cls) or session.foreign or cls.kind is not GpuKind.WHOLE or done.like is None:
            return
        view = session.view(cls)
        if view.best() >= 0:
            return
        jobs = self._waiting.upcoming(done.job.queue, self._length + 1)
        #: Views of classes of victims; None for those that leave other room than is needed, or find some.
        views: dict[TaskClass, ClassView | None] = {}
        for number, job in enumerate(jobs, done.victim.number + 1):
            task = only_task(job)
            if task is None or likeness(job) != done.like or not session.unbounded(job):
                return
            if job.single is None or job.single.min_member > 1 or self._ended(job):
                return
            batch = source.get(number)
            gone = _whole(batch) if batch is not None else None
            if batch is None or gone is None or gone.shut_out or not session.ledger.may_vacate(gone):
                return
            if gone.cls not in views:
                views[gone.cls] = self._view_of_equal(gone.cls, cls)
            node, own = gone.node, views[gone.cls]
            if node is None or own is None or not own.takes_over(node.row) or not view.takes_over(node.row):
                return
            if gone.charged != cls.charge(node.gpu_memory_mib):
                return
            yield _Pair(job=job, task=task, victim=batch)

    def _view_of_equal(self, victim: TaskClass, taker: TaskClass) -> ClassView | None:
        """The view of a class of victims that leave just the room that a taker needs, and find no other."""
        if not self._session.plain(victim) or sorted(victim.items) != sorted(taker.items):
            return None
        view = self._session.view(victim)
        return view if view.best() < 0 else None

    def _served(self, pairs: list[_Pair]) -> Exchange | None:
        """Serve all, if the last of them may take its place; None if not, and then nothing is decided."""
        session, last, before = self._session, pairs[-1], pairs[:-1]
        loser, waiting = last.victim.job.queue, self._waiting
        beside = waiting.heads(loser)
        steps = [self._step(pair) for pair in before]
        session.pools.mend(task for pair in before for task in pair.victim.tasks)
        self._touch(loser, last.job.queue)
        comes_next = waiting.heads(loser) == beside and waiting.comes_next(last.job)
        found = self._exchange(last.job) if comes_next else None
        if found is None or not found.plain or found.victim.job is not last.victim.job:
            if found is not None:
                found.solution.statement.rollback()
            for step in reversed(steps):
                step.statement.rollback()
            session.pools.put_back(task for pair in pairs for task in pair.victim.tasks)
            self._touch(loser, last.job.queue)
            return None
        steps.append(_Step(job=last.job, statement=found.solution.statement, message=found.message))
        decisions = session.decisions
        for step in steps:
            decisions.commit(step.statement, action=self._action, evictor=step.job, message=step.message)
        decisions.count("podgroups_acted_on_by_action", self._action, by=len(steps))
        decisions.count("podgroups_scheduled_by_action", self._action, by=len(steps))
        waiting.skip(last.job.queue, len(steps))
        waiting.touch(loser)
        return found

    def _step(self, pair: _Pair) -> _Step:
        (gone,) = pair.victim.tasks
        node = gone.node
        assert node is not None
        message, statement = self._message(pair.job), self._session.statement()
        statement.evict(gone)
        statement.pipeline(pair.task, node)
        return _Step(job=pair.job, statement=statement, message=message)

    def _touch(self, *queues: Queue) -> None:
        """Queues hold something else than before."""
        for queue in queues:
            self._waiting.touch(queue)
