"""Binding a pod and evicting it in the same cycle is nothing: neither is decided.

A later action may take the place that an earlier one gave. The pod then waits as if it had never been placed,
and whoever gets its place does not have to wait for anybody to leave: what can begin at once is bound.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from kai.engine.actions.allocate import should_pipeline
from kai.engine.framework.session import Session
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Eviction, Reason
from kai.model.ids import PodGroupKey, PodUid
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import Status


def cancel(session: Session) -> None:
    """Take back binds of pods that were evicted afterwards, and these evictions; after the last action.

    After: no pod is both bound and evicted, and what was decided before for others may be decided otherwise:
    some who were to wait are bound, and of gangs that lost a pod those that were bound wait.
    """
    decided = session.decisions
    if not decided.binds:
        return
    evicted = {each.pod.uid: each for each in decided.evictions}
    both = {bind.pod.uid for bind in decided.binds if bind.pod.uid in evicted}
    if not both:
        return
    takers: dict[PodGroupKey, Job] = {}
    losers: dict[PodGroupKey, Job] = {}
    for uid in [bind.pod.uid for bind in decided.binds if bind.pod.uid in both]:
        eviction, task = evicted[uid], session.state.tasks[uid]
        _take_back(session, task, eviction)
        assert task.job is not None
        losers[task.job.key] = task.job
        taker = session.state.jobs.get(eviction.evictor)
        if taker is not None:
            takers[taker.key] = taker
    decided.binds = [each for each in decided.binds if each.pod.uid not in both]
    decided.evictions = _without(decided.evictions, both)
    waited_for = {each.evictor for each in decided.evictions}
    # Takers first: what the losers gave up is for them.
    for job in {**takers, **losers}.values():
        if job.key not in waited_for:
            _begin(session, job)
    for job in losers.values():
        if should_pipeline(job):
            _wait_together(session, job)
    decided.placed = {each.pod.pod_group for each in decided.binds}
    _restore_times(session)


def _take_back(session: Session, task: Task, eviction: Eviction) -> None:
    """The pod holds nothing any more; one that was moved waits where it was moved to."""
    job, facts = task.job, task.facts
    assert job is not None
    assert facts is not None
    session.ledger.holds.unhold(task)
    if task.status is Status.RELEASING:
        session.ledger.counts.set_status(task, Status.PENDING)
        text = f"what it could have had is given to workload {eviction.evictor}"
        session.error(job, Unschedulable(Reason.POD_SCHEDULING_ERRORS, text, pod=task.key))
    session.state.unplaced(task)


def _without(evictions: list[Eviction], gone: set[PodUid]) -> list[Eviction]:
    """The others; gangs are as much smaller as pods of them are gone."""

    def gang(each: Eviction) -> tuple[str, str, str]:
        return each.pod.pod_group, each.evictor, each.action

    fewer = Counter(gang(each) for each in evictions if each.pod.uid in gone)
    return [
        msgspec.structs.replace(each, gang_size=max(each.gang_size - fewer[gang(each)], 1))
        for each in evictions
        if each.pod.uid not in gone
    ]


def _restore_times(session: Session) -> None:
    """A job that after all neither started nor lost a pod did so last when it did before."""
    bound = session.decisions.placed
    evicted = {each.pod.pod_group for each in session.decisions.evictions}
    for key, moment in session.decisions.started_before.items():
        if key not in bound:
            session.state.started(session.state.jobs[key], moment)
    for key, moment in session.decisions.evicted_before.items():
        if key not in evicted:
            session.state.robbed((session.state.jobs[key],), moment)


def _wait_together(session: Session, job: Job) -> None:
    """Pods that were bound for a gang of which others have to wait again wait with them."""
    waiting = [bind.pod.uid for bind in session.decisions.binds if bind.pod.pod_group == job.key]
    for uid in waiting:
        session.decisions.wait(session.state.tasks[uid])
    session.decisions.binds = [each for each in session.decisions.binds if each.pod.pod_group != job.key]


def _begin(session: Session, job: Job) -> None:
    """Bind the pods of a job that wait, if all of them can begin where they wait."""
    fresh = not any(
        task.node is not None for pod_set in job.pod_sets.values() for task in pod_set.tasks.values()
    )
    waiting: list[tuple[Task, Node]] = []
    for pod_set in job.pod_sets.values():
        for task in pod_set.sorted_tasks():
            if task.status is Status.PIPELINED:
                assert task.pipelined_node is not None
                waiting.append((task, task.pipelined_node))
    if not waiting or not _may_begin(session, job, waiting):
        return
    for task, node in waiting:
        session.decisions.begin(task, node)
    if fresh:
        session.decisions.started(job)


def _may_begin(session: Session, job: Job, waiting: list[tuple[Task, Node]]) -> bool:
    """Only plain pods: where devices are shared, or a plugin has a say, the next cycle sees to it."""
    needed: Counter[tuple[int, int]] = Counter()
    for task, node in waiting:
        cls = task.cls
        if cls.shared or task.claims or task.node is not None or job.has_constraint:
            return False
        if session.tracked or session.concerned(cls) is not None:
            return False
        for column, amount in cls.items:
            needed[node.row, column] += amount
    idle = session.nodes.cells_idle
    return all(idle[column] >= amount for column, amount in needed.items())
