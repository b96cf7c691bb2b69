"""One job's search: how many pods can be placed, at whose cost.

The number of pods is found by doubling and halving; victims of a smaller number are kept for the next. A
scenario is simulated only where the bounds allow it to succeed, and one that failed is not tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from kai.config import SchedulerConfig
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.chunks import may_allocate, tasks_to_allocate
from kai.engine.queueing.victims import VictimSource
from kai.engine.search.bounds import GangBound
from kai.engine.search.budget import Deadline
from kai.engine.search.limits import below_limits
from kai.engine.search.scenarios import (
    GENERATORS,
    Accumulation,
    Proposal,
    multi_node_gang,
    node_local_greedy,
    node_of,
)
from kai.engine.search.staying import put_back
from kai.model.arrays import Mask
from kai.model.ids import PodGroupKey
from kai.snapshot.classes import TaskClass
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Job, Task

#: From this size on the whole gang is tried at once first, instead of a few of its pods as in the original.
_LARGE_GANG: Final = 16
#: What is tried for jobs that a limit keeps out, whatever plugins are on.
_LIMITS: Final = "queue limits"
_ALL: Final = {**GENERATORS, _LIMITS: ("QueueLimits", below_limits)}
#: Whether the evicted tasks may be taken, judged after what could be placed again was.
Validator: TypeAlias = Callable[[Sequence[Batch]], bool]
#: Which of the victims of a scenario may be taken together, in order.
MostOf: TypeAlias = Callable[[Sequence[Batch]], Sequence[Batch]]


class SearchResult(StrEnum):
    """How a search ended."""

    SOLVED = "solved"
    EXHAUSTED = "generators_exhausted"
    DEADLINE = "deadline_exhausted"
    NO_GENERATOR = "no_generator"
    NOT_ATTEMPTED = "not_attempted"


@dataclass(slots=True)
class Solution:
    """A statement in effect that places the job's chunk: all that its gang still needs, or one step more."""

    statement: Statement
    victims: tuple[Batch, ...]
    #: Where the victims come from.
    source: VictimSource


def enabled_generators(config: SchedulerConfig) -> tuple[str, ...]:
    """The plugins that propose scenarios, in the order of the configuration: keys of ``GENERATORS``."""
    return tuple(plugin.name for plugin in config.plugins if plugin.name in GENERATORS)


class Search:
    """The search for one job in one action."""

    def __init__(
        self,
        session: Session,
        *,
        action: str,
        job: Job,
        source: VictimSource,
        validator: Validator,
        deadline: Deadline,
        generators: Sequence[str],
        most_of: MostOf | None = None,
    ) -> None:
        """Nothing is tried yet; the chunk is that of a simulation, as the job is now.

        Args:
            session: in which victims are tried.
            action: the name under which the time is counted.
            job: for which room is made.
            source: potential victims, in order.
            validator: judges victims while they are evicted and the job has its place.
            deadline: asked between two scenarios.
            generators: plugins that propose scenarios, in turn; see :func:`enabled_generators`.
            most_of: narrows the victims of a scenario to those that may be taken; None takes all.
        """
        self.session = session
        self.action = action
        self.job = job
        self.source = source
        self.validator = validator
        self.deadline = deadline
        self.generators = generators
        self.most_of = most_of
        self.tasks = tasks_to_allocate(job, simulation=True)
        self._failed: set[tuple[int, frozenset[int]]] = set()
        self._feasible: Mask | None = None

    def run(self) -> tuple[SearchResult, Solution | None]:
        """Search with each generator in turn.

        Where there is a solution its statement is in effect, to be committed or rolled back by the caller;
        else the state is as it was.
        """
        if not self.tasks:
            return SearchResult.EXHAUSTED, None
        generators = self.generators
        if not generators:
            return SearchResult.NO_GENERATOR, None
        if self.deadline.passed:
            return SearchResult.NOT_ATTEMPTED, None
        if self.source.together and (solution := self._with_all(GENERATORS[generators[0]][0])) is not None:
            return SearchResult.SOLVED, solution
        for generator in (*generators, *self._of_limits()):
            name, started = _ALL[generator][0], time.perf_counter()
            self.deadline.start_generator(name)
            solution = self._generate(generator)
            if solution is not None:
                self._took(name, SearchResult.SOLVED, started)
                return SearchResult.SOLVED, solution
            passed = self.deadline.generator_passed
            self._took(name, SearchResult.DEADLINE if passed else SearchResult.EXHAUSTED, started)
            if self.deadline.passed:
                return SearchResult.DEADLINE, None
        return SearchResult.EXHAUSTED, None

    def _of_limits(self) -> tuple[str, ...]:
        """Where a limit keeps the job out, victims on any nodes may do; tried once the others found none."""
        if self.session.over_capacity(self.job, self.tasks) is None:
            return ()
        return (_LIMITS,)

    def _with_all(self, name: str) -> Solution | None:
        """All pods at once, by one chunk of each victim: they were chosen for that."""
        chunks: dict[PodGroupKey, Batch] = {}
        drawn = 0
        while (batch := self.source.get(drawn)) is not None:
            chunks.setdefault(batch.job.key, batch)
            drawn += 1
        return self._at_once(tuple(chunks.values()), name)

    def first_victim(self) -> Solution | None:
        """What the first generator would find first for a single pod, if its first victim suffices.

        No bound is asked: they are necessary conditions, and this either succeeds or says nothing.
        """
        generators = self.generators
        if not generators or GENERATORS[generators[0]][1] is not node_local_greedy or self.deadline.passed:
            return None
        first = self.source.get(0)
        if first is None or len(first.tasks) != 1 or len(self.tasks) != 1:
            return None
        return self._at_once((first,), GENERATORS[generators[0]][0])

    def _at_once(self, victims: tuple[Batch, ...], name: str) -> Solution | None:
        """All pods by just these victims; a failure is not tried again."""
        started = time.perf_counter()
        evicted = [task for batch in victims for task in batch.tasks]
        solution = self._simulate(self.tasks, victims, evicted, name)
        if solution is None:
            self._failed.add((len(self.tasks), frozenset(batch.number for batch in victims)))
        else:
            self._took(name, SearchResult.SOLVED, started)
        return solution

    def _took(self, generator: str, result: SearchResult, started: float) -> None:
        times = self.session.decisions.searches.setdefault((self.action, generator, str(result)), [])
        times.append(time.perf_counter() - started)

    def _generate(self, generator: str) -> Solution | None:
        """The largest number of pods that can be placed, then all of them with what was learnt."""
        wanted = len(self.tasks)
        recorded: frozenset[int] = frozenset()
        if wanted >= _LARGE_GANG:
            if _ALL[generator][1] is node_local_greedy and self._too_large_for_nodes():
                return None
            if _ALL[generator][1] is multi_node_gang:
                solution = self._probe(generator, wanted, recorded)
                if solution is not None:
                    return solution
        solved, tried = 0, 1
        while True:
            solution = self._probe(generator, tried, recorded)
            if solution is None:
                break
            if tried == wanted:
                return solution
            recorded = self._record(solution)
            solved, tried = tried, min(2 * tried, wanted)
        if not solved:
            return None
        failed = tried
        while failed - solved > 1:
            middle = (solved + failed) // 2
            solution = self._probe(generator, middle, recorded)
            if solution is None:
                failed = middle
            else:
                recorded = self._record(solution)
                solved = middle
        # All of them once more: other victims may be recorded than when that failed. If they are the same
        # nothing is simulated, as each scenario is known to fail.
        return self._probe(generator, wanted, recorded)

    def _too_large_for_nodes(self) -> bool:
        """Whether growing node by node cannot reach a gang: a probe adds what one node can give, at most."""
        if self.source.gangs:
            return False
        wanted = len(self.tasks)
        bound = GangBound(self.session, self.tasks)
        # Doubling and halving take two probes for each bit, with some to spare. All that one adds is on a
        # single node, as no victim is a gang.
        probes = 2 * wanted.bit_length() + 3
        return any(part.total + probes * part.most_of_one_node() < count for part, count in bound.parts)

    @staticmethod
    def _record(solution: Solution) -> frozenset[int]:
        taken = {task.uid for task in solution.statement.evicted()}
        solution.statement.rollback()
        return frozenset(
            batch.number for batch in solution.victims if any(task.uid in taken for task in batch.tasks)
        )

    def _probe(self, generator: str, pods: int, recorded: frozenset[int]) -> Solution | None:
        tasks = self.tasks[:pods]
        name, propose = _ALL[generator]
        state = Accumulation(
            self.session, self.source, recorded=recorded, tasks=tasks, bound=GangBound(self.session, tasks)
        )
        count = self.session.decisions.count
        for proposal in propose(state):
            count("scenario_search_scenarios_total", self.action, name, "emitted")
            if self.most_of is not None:
                proposal = self._narrowed(proposal, state.recorded)
            fingerprint = (pods, recorded | {batch.number for batch in proposal})
            if fingerprint in self._failed:
                count("scenario_search_scenarios_total", self.action, name, "duplicate")
                continue
            victims = (*state.recorded, *proposal)
            if not victims:  # where a job fits as it is, no search places it, as in the original
                continue
            evicted = [task for batch in victims for task in batch.tasks]
            if not state.bound.holds_with(evicted):
                count("scenarios_filtered_by_action", self.action)
            elif (solution := self._simulate(tasks, victims, evicted, name)) is not None:
                return solution
            self._failed.add(fingerprint)
            if self.deadline.generator_passed:
                return None
        return None

    def _narrowed(self, proposal: Proposal, recorded: Sequence[Batch]) -> Proposal:
        """Without what may not be taken beside the rest and what is recorded, which may."""
        assert self.most_of is not None
        known = {batch.number for batch in recorded}
        left = self.most_of((*recorded, *proposal))
        return tuple(batch for batch in left if batch.number not in known)

    def _simulate(
        self, tasks: list[Task], victims: tuple[Batch, ...], evicted: Sequence[Task], generator: str
    ) -> Solution | None:
        count = self.session.decisions.count
        count("scenarios_simulation_by_action", self.action)
        count("scenario_search_scenarios_total", self.action, generator, "simulated")
        nodes = self._nodes_with(victims)
        statement = self.session.statement()
        statement.evict_all(evicted)
        if self._place(statement, tasks, victims, nodes):
            if self.validator(victims):
                return Solution(statement, victims, self.source)
            count("scenario_search_scenarios_total", self.action, generator, "validator_rejected")
        statement.rollback()
        return None

    # --- simulation ------------------------------------------------------------------------------
    def _place(
        self, statement: Statement, tasks: list[Task], victims: Sequence[Batch], nodes: Mask | None
    ) -> bool:
        """Place the job's pods and as many victims as find a place, in the order of queues and jobs.

        Those whose place nobody took keep it, before others are given new ones. Victims that are served
        before the job have their place before it, and may leave none for it. Other jobs that wait take no
        part; the original passes them over.
        """
        session = self.session
        jobs = {batch.job.key: batch.job for batch in victims}
        jobs[self.job.key] = self.job
        waiting = session.simulated_jobs(list(jobs.values()))
        while (job := waiting.pop()) is not None:
            checkpoint = statement.checkpoint()
            if job is self.job:
                if not allocate_job(session, statement, job, simulation=True, nodes=nodes, tasks=tasks):
                    return False
                classes = {task.cls for batch in victims for task in batch.tasks}
                if put_back(session, statement, victims, classes):
                    waiting = session.simulated_jobs([job for job in jobs.values() if _evicted_left(job)])
                if not self._room_for(victims, classes):
                    return True
            elif not allocate_job(session, statement, job, simulation=True, nodes=nodes):
                statement.rollback(checkpoint)
            elif _evicted_left(job):
                waiting.push(job)
        # The job was among those that waited, and whatever was taken back since came after it.
        assert all(task.pipelined_node is not None for task in tasks), f"{self.job.key} lost its place"
        return True

    def _room_for(self, victims: Sequence[Batch], classes: set[TaskClass]) -> bool:
        """Whether any class of the victims fits anywhere; if not, none of them needs to be tried."""
        # With what a victim lost, pods of it that waited before are placed too.
        waiting = [batch.job for batch in victims if batch.job.pending]
        classes = classes.union(task.cls for job in waiting for task in self._pending(job))
        return any(self.session.view(cls).best() >= 0 for cls in classes)

    @staticmethod
    def _pending(job: Job) -> list[Task]:
        return [task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values() if not task.node]

    def _feasible_nodes(self) -> Mask:
        """Nodes with GPUs free or being released, where the job needs GPUs everywhere; else all."""
        table = self.session.nodes
        members = (task for pod_set in self.job.pod_sets.values() for task in pod_set.tasks.values())
        if any(task.cls.cpu_only for task in members):
            return np.ones(len(table), dtype=bool)
        feasible = (table.idle[:, GPU] > 0) | (table.releasing[:, GPU] > 0)
        for column, _ in self.session.state.resources.mig:
            feasible |= (table.idle[:, column] > 0) | (table.releasing[:, column] > 0)
        feasible[[node.row for node in table.sharing.values()]] = True
        return feasible

    def _nodes_with(self, victims: Sequence[Batch]) -> Mask | None:
        """Feasible nodes and those of the victims, if that matters; asked before anything is evicted.

        A pod with GPUs finds no place elsewhere anyhow. Only a victim without could; as in the original it is
        not moved to a node without free GPUs, if all pods of the job need GPUs.
        """
        if not any(task.cls.cpu_only for batch in victims for task in batch.tasks):
            return None
        if self._feasible is None:
            self._feasible = self._feasible_nodes()
        mask = self._feasible.copy()
        rows = [node.row for batch in victims for task in batch.tasks if (node := node_of(task)) is not None]
        mask[np.array(rows, dtype=np.int64)] = True
        return mask


def _evicted_left(job: Job) -> bool:
    return any(
        may_allocate(task, simulation=True) and task.virtual
        for pod_set in job.pod_sets.values()
        for task in pod_set.tasks.values()
    )
