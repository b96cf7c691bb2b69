"""Whether a change would let a job run: the next cycle's allocation, tried on the state and taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kai.engine.actions import allocate
from kai.engine.explain.changes import AddNodes, Change
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.queueing.pools import may_lose
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.rows import Job, Queue
from kai.snapshot.state import ClusterState

#: Opens a session on a state, at a moment.
Begin: TypeAlias = Callable[[ClusterState, float], Session]


class Trials:
    """Tries changes, for so many seconds of this thread's own work in all; then nothing helps any more."""

    def __init__(
        self,
        begin: Begin,
        state: ClusterState,
        job: Job,
        *,
        now: float,
        seconds: float,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._begin = begin
        self._state = state
        self._job = job
        self._now = now
        self._clock = clock
        self._deadline = clock() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self._clock() > self._deadline

    def helps(self, change: Change) -> bool:
        """Whether a cycle would place the job's next chunk with this change, and nobody take it back.

        All that come first in order are served first. Where somebody might take the place in turn the answer
        is no, though a search for victims could find that nobody does.
        """
        if self.over:
            return False
        with change.made(self._state, self._job):
            return self._served(nodes=isinstance(change, AddNodes), for_good=True)

    def served(self) -> bool:
        """Whether a cycle would place it as things are, all that come first served."""
        return self._served(nodes=False, for_good=False)

    def _served(self, *, nodes: bool, for_good: bool) -> bool:
        """Serve everybody as allocation does; nothing stays. With ``nodes`` there are others than before."""
        state, kept = self._state, self._state.kept
        state.kept = kept.lent(same_nodes=not nodes)
        try:
            session = self._begin(state, self._now)
            session.quiet = True
            candidates = session.allocatable_jobs()
            statement = session.statement()
            try:
                placed = self._placed(session, statement, candidates) and not self.over
                rivals = [job for job in candidates if job.pending and job is not self._job]
                return placed and not (for_good and _contested(session, self._job, rivals))
            finally:
                statement.rollback()
        finally:
            state.kept = kept

    def _placed(self, session: Session, statement: Statement, candidates: Sequence[Job]) -> bool:
        served = {job.key for job in session.promised_jobs() if _place(session, statement, job)}
        rest = (job for job in candidates if job.pending)
        waiting = session.pending_jobs(rest, depth=session.depth(allocate.ACTION))
        while (job := waiting.pop()) is not None and not self.over:
            if _place(session, statement, job):
                served.add(job.key)
                if job.pending:
                    waiting.push(job)
            elif job is self._job and job.key not in served:
                return False
        return self._job.key in served


def _place(session: Session, statement: Statement, job: Job) -> bool:
    checkpoint = statement.checkpoint()
    if allocate_job(session, statement, job):
        return True
    statement.rollback(checkpoint)
    return False


def _contested(session: Session, job: Job, rivals: Sequence[Job]) -> bool:
    """Whether somebody who still waits might evict the job: by priority, or since its queue has too much."""
    if not may_lose(job) or not rivals:
        return False
    if any(rival.queue is job.queue and rival.priority > job.priority for rival in rivals):
        return True
    strangers = any(rival.queue is not job.queue for rival in rivals)
    return strangers and any(_over_share(session, queue) for queue in job.queue.path)


def _over_share(session: Session, queue: Queue) -> bool:
    """Whether a queue holds more than it deserves, or than its fair share."""
    held = (queue.allocated[0], queue.allocated[1], queue.allocated[2] / GPU_CENTI)
    fair = session.shares.fair[queue.row]
    return any(
        amount > share or 0 <= quota < amount
        for amount, quota, share in zip(held, queue.deserved, fair, strict=True)
    )
