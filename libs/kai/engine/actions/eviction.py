"""What consolidation, reclaim and preempt have in common: one search for each job that waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from kai.engine.actions.rows import Exchange, Rows
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.decisions import Message
from kai.engine.framework.session import Session
from kai.engine.framework.victims import VictimRules, VictimSearch, Why, both
from kai.engine.queueing.alike import likeness
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.crowds import Crowds
from kai.engine.queueing.pending import PendingJobs
from kai.engine.queueing.turns import Turn
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import Unschedulable
from kai.engine.search.bounds import free_centi, moving_may_do, never_fits
from kai.engine.search.budget import Deadline, limits
from kai.engine.search.signatures import Representatives
from kai.engine.search.solver import Search, SearchResult, Solution, Validator, enabled_generators
from kai.model.decisions import Cut, Ended, Reason
from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.times import CLOCK_SKEW_SECONDS, rfc3339


class Strategy(Protocol):
    """How one action chooses and judges victims."""

    action: str
    #: Victims are only moved, so none are needed where a job fits as it is.
    moves_only: bool

    def representatives(self, job: Job) -> Representatives:
        """Failures that a job is compared with: of all jobs that could have had the same victims."""

    def admits(self, job: Job) -> bool:
        """Whether the action is for this job at all; a refusal says nothing about others.

        Asked first, once for each job that waits, so it should be quick.
        """

    def gate(self, job: Job, tasks: list[Task]) -> Unschedulable | None:
        """A cheap reason why no search can succeed; asked of jobs that no failure covers.

        ``tasks`` are the job's next chunk, here and below.
        """

    def victims(self, job: Job, tasks: list[Task], rules: VictimRules) -> VictimSource:
        """Who may be evicted, in order: those that the rules of plugins accept. Nobody is evicted yet."""

    def validator(self, job: Job, tasks: list[Task]) -> Validator | None:
        """Judges a set of victims by what the action is for; made before anything is evicted.

        Asked of each scenario in which the job found its place, while it is in effect. None: any will do.
        """

    def message(self, job: Job) -> Message:
        """What to tell about each victim; made before anything is evicted."""


def run(session: Session, strategy: Strategy, jobs: Iterable[Job]) -> None:
    """Serve jobs in order, one chunk each."""
    turns = session.turns
    turns.search(strategy.action, placed=bool(session.decisions.binds))
    action = _Action(session, strategy)
    if turns.partial(strategy.action):
        jobs = [job for job in jobs if turns.takes_part(strategy.action, job=job.key)]
    waiting = session.jobs_in_order(
        (job for job in jobs if not delayed(session, job)), depth=session.depth(strategy.action)
    )
    crowds, rows = Crowds(waiting), action.rows(waiting)
    # What came of the turns of the first of each crowd.
    known: dict[PodGroupKey, _Served] = {}
    while (job := waiting.pop()) is not None:
        if (ended := action.limits.before(job.key)) is not None:
            action.end_before(job, ended)
            break
        first = crowds.first(job)
        if first is not None:
            served = known[first.key]
            action.acted_on([job], served)
        else:
            served = known[job.key] = action.serve(job)
        for queue in served.losers:
            waiting.touch(queue)
        if served.alike is _Alike.CHANGED:
            crowds.changed()
            if rows is not None and served.exchange is not None:
                rows.follow(served.exchange)
        elif served.alike is not _Alike.UNKNOWN and session.stands_for_alike(job):
            for refused, others in crowds.refuse(job, for_now=served.alike is _Alike.NOT_NOW):
                action.acted_on(others, known[refused.key])
    if turns.partial(strategy.action):
        action.repeat()


class _Alike(Enum):
    """What is known of jobs alike once one had its turn."""

    UNKNOWN = auto()
    #: Something was decided.
    CHANGED = auto()
    #: Nothing would come of their turns, and nothing be told, until something changes.
    NOT_NOW = auto()
    #: Whatever changes in this action.
    NEVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """What came of a job's turn."""

    #: Queues that lost pods.
    losers: Collection[Queue] = ()
    #: What would come of the turns of those alike in its queue.
    alike: _Alike = _Alike.UNKNOWN
    #: It counts as acted on, and so would these.
    acted: bool = False
    #: How it got its place by a search.
    exchange: Exchange | None = None


_FOR_ITSELF: Final = _Served()
_NOT_NOW: Final = _Served(alike=_Alike.NOT_NOW)
_NEVER: Final = _Served(alike=_Alike.NEVER)
_NOT_NOW_THOUGH_ACTED_ON: Final = _Served(alike=_Alike.NOT_NOW, acted=True)


class _Action:
    """Searches for one job after the other."""

    def __init__(self, session: Session, strategy: Strategy) -> None:
        self.session = session
        self.strategy = strategy
        self.limits = limits(
            session.config.budgets, session.turns, strategy.action, clock=session.clock, cuts=session.cuts
        )
        #: The search before this one was solved by its first victim alone. Where jobs are alike the next will
        #: be too, so that is tried before anything is proven about it.
        self._first_sufficed = False
        self._generators = enabled_generators(session.config)

    def end_before(self, job: Job, ended: Ended) -> None:
        """Time ends the searches that are still to come, the next of which would be for a job."""
        session, action = self.session, self.strategy.action
        session.decisions.cuts.append(Cut(action=action, pod_group=job.key, ended=ended))
        if ended is Ended.TURNS:
            self.give_way()
        else:
            session.decisions.count("scenario_search_action_budget_exhausted_total", action)

    def serve(self, job: Job) -> _Served:
        """Search for one job, and commit what was found."""
        session, strategy = self.session, self.strategy
        if not strategy.admits(job):
            return self._for_alike(_NOT_NOW)
        representatives = strategy.representatives(job)
        if (turn := session.turns.had(strategy.action, job=job.key)) is not None:
            # It failed in an earlier cycle of this pass, which speaks for jobs like it in this one.
            if turn.failed:
                representatives.failed(job, why=turn.why)
            return _FOR_ITSELF
        failed = representatives.covering(job)
        if failed is not None:
            self._tell_why(job, failed.why)
            return self._for_alike(_NEVER) if failed.why is None else _FOR_ITSELF
        tasks = tasks_to_allocate(job, simulation=True)
        if not tasks or _unresolvable(session, job, tasks):
            return _FOR_ITSELF
        session.decisions.count("podgroups_acted_on_by_action", strategy.action)
        # Unlike in the original this counts as no failure: nothing was found out about jobs like it.
        if (why := strategy.gate(job, tasks)) is not None:
            return _FOR_ITSELF if why.pod else self._for_alike(_NOT_NOW_THOUGH_ACTED_ON)
        if strategy.moves_only and self._fits_as_it_is(job, tasks):
            return _Served(alike=_Alike.CHANGED)
        message, like = strategy.message(job), likeness(job)
        solution = self._solve(job, tasks, representatives)
        if solution is None:
            failed = representatives.covering(job)
            return self._for_alike(_NEVER) if failed is not None and failed.why is None else _FOR_ITSELF
        losers = dict.fromkeys([batch.job.queue for batch in solution.victims])
        exchange = Exchange(job=job, like=like, tasks=tasks, solution=solution, message=message)
        session.decisions.commit(solution.statement, action=strategy.action, evictor=job, message=message)
        session.decisions.count("podgroups_scheduled_by_action", strategy.action)
        # Told as in the original: attempts that failed do not count.
        if strategy.action == "preempt":
            session.decisions.count("total_preemption_attempts")
        return _Served(losers=losers, alike=_Alike.CHANGED, exchange=exchange)

    def rows(self, waiting: PendingJobs) -> Rows | None:
        """For jobs that are served together; None where it was said of each when its time comes."""
        session, strategy = self.session, self.strategy
        if session.cuts or session.turns.partial(strategy.action):
            return None
        return Rows(
            session,
            waiting,
            action=strategy.action,
            message=strategy.message,
            exchange=self._exchange,
            ended=lambda job: self.limits.before(job.key) is not None,
        )

    def _exchange(self, job: Job) -> Exchange | None:
        """Let a job that is next, and entitled to it, take the place of its first victim alone.

        What comes back is in effect, and not committed; None if it may not.
        """
        tasks = tasks_to_allocate(job, simulation=True)
        if not tasks or not self.strategy.admits(job):
            return None
        rules = self.session.plugins.victim_rules(self._about(job, tasks))
        if rules.entitled is not None and not rules.entitled():
            return None
        deadline = self.limits.deadline(job.key)
        message, like = self.strategy.message(job), likeness(job)
        solution = self._search(job, tasks, rules, deadline).first_victim()
        if solution is None:
            return None
        self._found(SearchResult.SOLVED, deadline)
        return Exchange(job=job, like=like, tasks=tasks, solution=solution, message=message)

    def acted_on(self, jobs: Sequence[Job], served: _Served) -> None:
        """Jobs were served as one that is alike was."""
        if served.acted and jobs:
            self.session.decisions.count("podgroups_acted_on_by_action", self.strategy.action, by=len(jobs))

    def _for_alike(self, served: _Served) -> _Served:
        """This, unless some of those alike had their turn in an earlier cycle."""
        return _FOR_ITSELF if self.session.turns.partial(self.strategy.action) else served

    def _solve(self, job: Job, tasks: list[Task], representatives: Representatives) -> Solution | None:
        session, strategy = self.session, self.strategy
        rules = session.plugins.victim_rules(self._about(job, tasks))
        search: Search | None = None
        turns, action = session.turns, strategy.action
        deadline = self.limits.deadline(job.key)
        if self._first_sufficed and len(tasks) == 1:
            search = self._search(job, tasks, rules, deadline)
            solution = search.first_victim()
            if solution is not None:
                self._found(SearchResult.SOLVED, deadline)
                return solution
        self._first_sufficed = False
        if never_fits(session, job, tasks) or not self._may_suffice(tasks, rules):
            representatives.failed(job)
            turns.take(action, job=job.key, turn=Turn(failed=True))
            return None
        result, solution = (search or self._search(job, tasks, rules, deadline)).run()
        self._found(result, deadline)
        session.decisions.cuts += deadline.cuts()
        if solution is not None:
            self._first_sufficed = len(solution.victims) == 1 and solution.victims[0].number == 0
        # A search that was stopped has proven nothing about jobs like it.
        elif result in (SearchResult.DEADLINE, SearchResult.NOT_ATTEMPTED):
            self._out_of_time(job, gave_way=deadline.gave_way)
        else:
            representatives.failed(job, why=rules.why)
            turns.take(action, job=job.key, turn=Turn(failed=True, why=rules.why))
        if solution is None:
            self._tell_why(job, rules.why)
        return solution

    def _out_of_time(self, job: Job, *, gave_way: bool) -> None:
        """Tell a job that its search ended early, or did not begin. In the original the whole action ends."""
        session, turns, action = self.session, self.session.turns, self.strategy.action
        session.due(0.0)
        turns.take(action, job=job.key, turn=Turn(failed=False))
        why = "ran out of its time budget"
        if gave_way:
            self.give_way()
            if not turns.stop(action, job=job.key):
                return
            why = "gives way to others that wait whenever it takes this long; it will be tried again"
        self._tell(job, Unschedulable(Reason.POD_SCHEDULING_ERRORS, f"the {action} search {why}"))

    def _about(self, job: Job, tasks: list[Task]) -> VictimSearch:
        pools = self.session.pools
        return VictimSearch(
            action=self.strategy.action,
            job=job,
            tasks=tasks,
            chunks=lambda queue: pools.of(queue).chunks(),
        )

    def _may_suffice(self, tasks: list[Task], rules: VictimRules) -> bool:
        """Whether what is free and what the rules allow to take could cover what is asked for.

        Pods that find another place are not taken, so the rest must be: nothing is gained by moving.
        """
        if self.strategy.moves_only:
            return True
        if rules.takes is not None and not moving_may_do(self.session, tasks) and not rules.takes():
            return False
        if rules.suffices is None:
            return True
        needed = sum(task.cls.gpu_centi for task in tasks)
        # Which part of a GPU an amount of memory is depends on the node.
        if not needed or any(task.cls.gpu_memory_mib for task in tasks):
            return True
        return rules.suffices(needed - free_centi(self.session))

    def _tell_why(self, job: Job, why: Why | None) -> None:
        if why is not None and (found := why(job)) is not None:
            self._tell(job, found)

    def _tell(self, job: Job, why: Unschedulable) -> None:
        self.session.error(job, why)
        self.session.turns.explain(self.strategy.action, job=job.key, why=why)

    def give_way(self) -> None:
        """Others wait for the end of the cycle; searches go on in the next."""
        self.session.turns.give_way(self.strategy.action, self.session.state.pending_jobs)
        self.session.decisions.count("scenario_search_gave_way_total", self.strategy.action)

    def repeat(self) -> None:
        """Tell jobs that searches have not come to in this cycle what they were told before."""
        session = self.session
        for key, why in session.turns.explanations(self.strategy.action).items():
            if (job := session.state.pending_jobs.get(key)) is not None:
                session.error(job, why)

    def _search(self, job: Job, tasks: list[Task], rules: VictimRules, deadline: Deadline) -> Search:
        strategy = self.strategy
        source = strategy.victims(job, tasks, rules)
        validator = both(strategy.validator(job, tasks), rules.allows) or _any_victims
        return Search(
            self.session,
            action=strategy.action,
            job=job,
            source=source,
            validator=validator,
            deadline=deadline,
            generators=self._generators,
            most_of=rules.most_of,
        )

    def _found(self, result: SearchResult, deadline: Deadline) -> None:
        self.session.decisions.count(
            "scenario_search_jobs_total", self.strategy.action, str(result), str(deadline.reduced).lower()
        )

    def _fits_as_it_is(self, job: Job, tasks: list[Task]) -> bool:
        """Let a job wait for what is free or being released, if that is enough: then nobody has to move.

        The original evicts somebody first all the same.
        """
        session = self.session
        statement = session.statement()
        if allocate_job(session, statement, job, simulation=True, tasks=tasks):
            session.decisions.commit(statement, action=self.strategy.action)
            session.decisions.count("podgroups_scheduled_by_action", self.strategy.action)
            return True
        statement.rollback()
        return False


def _any_victims(victims: Sequence[Batch]) -> bool:
    del victims
    return True


def delayed(session: Session, job: Job) -> bool:
    """Whether a job may not yet cost others their place; says so among its reasons."""
    delay = job.facts.preemption_delay
    if delay <= 0:
        return False
    evicted = job.last_eviction if job.last_eviction <= session.now + CLOCK_SKEW_SECONDS else 0.0
    until = max(job.created, evicted) + delay
    if session.now >= until:
        return False
    session.due(until)
    text = f"it may not take the place of others before {rfc3339(until)} (preemption delay {delay:g} s)"
    session.error(job, Unschedulable(Reason.PREEMPTION_DELAY, text))
    return True


def _unresolvable(session: Session, job: Job, tasks: list[Task]) -> bool:
    """Whether something that no eviction changes keeps the job from running."""
    for task in tasks:
        concerned = session.concerned(task.cls)
        for each in concerned.pre_filters if concerned is not None else ():
            if why := each.refuse(task, job):
                session.error(job, Unschedulable(Reason.POD_SCHEDULING_ERRORS, why, pod=task.key))
                return True
    return False
