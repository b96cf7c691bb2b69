"""Place what is pending on what is free, or on what becomes free by itself."""

from __future__ import annotations

from kai.engine.actions import singles
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.session import Session
from kai.engine.queueing.crowds import Crowds
from kai.snapshot.rows import Job

ACTION = "allocate"


def run(session: Session) -> None:
    """Serve jobs in order, chunk by chunk; one that fails is not tried again in this cycle.

    Jobs that were promised a place in the cycle before come first: what was released for them is theirs.
    """
    candidates = session.allocatable_jobs()
    promised = {job.key for job in session.promised_jobs() if _allocate(session, job)}
    served = len(promised)
    if promised:
        candidates = [job for job in candidates if job.pending]
    waiting = session.lookahead_jobs(candidates, depth=session.depth(ACTION))
    crowds = Crowds(waiting)
    while (job := waiting.pop()) is not None:
        first = crowds.first(job)
        if first is not None:
            session.refuse_alike(first, [job])
        else:
            known = job.key in session.errors
            placed = _allocate(session, job, waiting.following)
            served += placed
            if placed and job.pending:
                waiting.push(job)
            if placed or known or not session.stands_for_alike(job):
                continue
        # Nothing becomes free here, and no queue gets more room, so it lasts.
        for refused, others in crowds.refuse(job):
            session.refuse_alike(refused, others)
    if served:
        session.decisions.count("podgroups_scheduled_by_action", ACTION, by=served)


def _allocate(session: Session, job: Job, following: singles.Following | None = None) -> int:
    """Place the next chunk of a job; returns how many jobs got one, those taken along included."""
    fresh = job.active_allocated == 0
    if served := singles.place(session, job, following):
        for each in served:
            # Those that were taken along have this one pod, so they held nothing.
            if fresh or each is not job:
                session.decisions.started(each)
        return len(served)
    statement = session.statement()
    if not allocate_job(session, statement, job):
        statement.rollback()
        return 0
    waits = should_pipeline(job)
    if waits:
        statement.convert_to_pipelined(job)
    session.decisions.commit(statement, action=ACTION)
    if fresh and not waits:
        session.decisions.started(job)
    return 1


def should_pipeline(job: Job) -> bool:
    """Whether the gang as a whole has to wait for resources being released."""
    return any(
        pod_set.pipelined and pod_set.active_allocated - pod_set.pipelined < pod_set.min_member
        for pod_set in job.pod_sets.values()
    )
