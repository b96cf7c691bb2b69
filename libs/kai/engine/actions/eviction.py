"""What consolidation, reclaim and preempt have in common: one search for each job that waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kai.engine.allocation import allocate_job
from kai.engine.reasons import Unschedulable
from kai.engine.search.bounds import never_fits
from kai.engine.search.budget import ActionBudget
from kai.engine.search.signatures import Representatives
from kai.engine.search.solver import Result, Search, Validator
from kai.engine.search.victims import VictimSource
from kai.engine.session import Session
from kai.engine.tree import tasks_to_allocate
from kai.model.decisions import Reason
from kai.snapshot.rows import Job, Task
from kai.snapshot.times import rfc3339


class Strategy(Protocol):
    """How one action chooses and judges victims."""

    action: str
    #: Victims are only moved, so none are needed where a job fits as it is.
    moves_only: bool

    def representatives(self, job: Job) -> Representatives:
        """Failures that a job is compared with."""

    def admits(self, job: Job) -> bool:
        """Whether the action is for this job at all; a refusal says nothing about others."""

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        """A cheap reason why no search can succeed."""

    def victims(self, job: Job, tasks: list[Task]) -> VictimSource | None:
        """Who may be evicted; None if a bound shows that it cannot suffice."""

    def validator(self, job: Job, tasks: list[Task]) -> Validator:
        """Judges a set of victims; made before anything is evicted."""

    def message(self, job: Job) -> Callable[[Task], str]:
        """What to tell about each victim; made before anything is evicted."""


def run(session: Session, strategy: Strategy, jobs: Iterable[Job]) -> None:
    """Serve jobs in order, one chunk each."""
    action = strategy.action
    budget = ActionBudget(session.config.budgets, action, session.clock)
    waiting = session.pending_jobs(
        (job for job in jobs if not delayed(session, job)), depth=session.depth(action)
    )
    while (job := waiting.pop()) is not None:
        if budget.passed:
            session.decisions.count("scenario_search_action_budget_exhausted_total", action)
            break
        if not strategy.admits(job):
            continue
        representatives = strategy.representatives(job)
        if representatives.skips(job) or _hopeless(session, job):
            continue
        session.decisions.count("podgroups_acted_on_by_action", action)
        for victim in _search(session, strategy, job, budget, representatives):
            waiting.touch(victim.queue)


def _search(
    session: Session, strategy: Strategy, job: Job, budget: ActionBudget, representatives: Representatives
) -> list[Job]:
    """Search for one job, and commit what was found; returns the jobs that lost pods."""
    tasks = tasks_to_allocate(job, simulation=True)
    if strategy.gate(job, tasks) is not None:
        return []
    impossible = never_fits(session, job, tasks)
    if strategy.moves_only and not impossible and _fits_as_it_is(session, strategy, job, tasks):
        return []
    source = None if impossible else strategy.victims(job, tasks)
    if source is None:
        representatives.failed(job)
        return []
    validator, message = strategy.validator(job, tasks), strategy.message(job)
    deadline = budget.job()
    result, solution = Search(session, strategy.action, job, source, validator, deadline).run()
    count = session.decisions.count
    count("scenario_search_jobs_total", strategy.action, str(result), str(deadline.reduced).lower())
    if solution is None:
        if result in (Result.DEADLINE, Result.NOT_ATTEMPTED):
            text = f"the {strategy.action} search ran out of its time budget"
            session.error(job, Unschedulable(Reason.POD_SCHEDULING_ERRORS, text))
            session.due(0.0)
        else:
            representatives.failed(job)
        return []
    victims = {batch.job.key: batch.job for batch in solution.victims}
    session.commit(solution.statement, action=strategy.action, evictor=job, message=message)
    count("podgroups_scheduled_by_action", strategy.action)
    if strategy.action == "preempt":
        count("total_preemption_attempts")
    return list(victims.values())


def _fits_as_it_is(session: Session, strategy: Strategy, job: Job, tasks: list[Task]) -> bool:
    """Let a job wait for what is free or being released, if that is enough: then nobody has to move."""
    statement, used = session.statement(), job.active_used
    if (
        allocate_job(session, statement, job, simulation=True, tasks=tasks)
        and job.gang_satisfied
        and job.active_used > used
    ):
        session.commit(statement, action=strategy.action)
        session.decisions.count("podgroups_scheduled_by_action", strategy.action)
        return True
    statement.rollback()
    return False


def delayed(session: Session, job: Job) -> bool:
    """Whether a job may not yet cost others their place; says so among its reasons."""
    delay = job.facts.preemption_delay
    until = max(job.created, job.last_eviction) + delay
    if delay <= 0 or session.now >= until:
        return False
    session.due(until)
    text = f"it may not take the place of others before {rfc3339(until)} (preemption delay {delay:g} s)"
    session.error(job, Unschedulable(Reason.PREEMPTION_DELAY, text))
    return True


def _hopeless(session: Session, job: Job) -> bool:
    """Whether something that no eviction changes keeps the job from running."""
    for task in tasks_to_allocate(job, simulation=True):
        for plugin in session.concerned(task.cls):
            if why := plugin.refuse(task, job):
                session.error(job, Unschedulable(Reason.POD_SCHEDULING_ERRORS, f"pod {task.key}: {why}"))
                return True
    return False
