"""Which sets of victims are worth a simulation, in which order.

Both generators walk the same accumulation of batches. At every state that passes the bound, one proposes the
batches around the node of the latest victim, the other the emptiest nodes that together would suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from kai.engine.framework.session import Session
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.victims import TaskColumns, VictimSource
from kai.engine.search.bounds import GangBound
from kai.model.arrays import Floats, Ints
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Node, Task

#: Batches proposed beside the recorded victims.
Proposal: TypeAlias = tuple[Batch, ...]


#: What sums of parts of GPUs may be off by rounding.
_NEAR: Final = 1e-9
#: Batches added one by one before looking further ahead at once.
_STEPS: Final = 4


def node_of(task: Task) -> Node | None:
    """Where a task holds resources, or waits for some."""
    return task.pipelined_node or task.node


class Accumulation:
    """Batches drawn so far, without those that are recorded already."""

    def __init__(
        self,
        session: Session,
        source: VictimSource,
        *,
        recorded: frozenset[int],
        tasks: Sequence[Task],
        bound: GangBound,
    ) -> None:
        self.session = session
        self.tasks = tasks
        self.recorded = [source.batches[number] for number in sorted(recorded)]
        self.bound = bound
        #: How many batches were drawn, recorded ones included.
        self.drawn = 0
        self._source = source
        self._skip = recorded
        for batch in self.recorded:
            bound.add(batch.tasks)

    @property
    def latest(self) -> Batch:
        """The batch drawn last."""
        return self._source.batches[self.drawn - 1]

    def chosen(self, numbers: Iterable[int]) -> Proposal:
        """Batches by number, without recorded ones."""
        return tuple(self._source.batches[number] for number in sorted(numbers) if number not in self._skip)

    def drawn_since(self, number: int) -> list[Batch]:
        """Batches drawn from a number on, without recorded ones."""
        return [
            batch for batch in self._source.batches[number : self.drawn] if batch.number not in self._skip
        ]

    def columns(self) -> tuple[Ints, Ints, Ints]:
        """Node rows, batches and hundredths of GPUs of all potential victims."""
        columns = self._source.columns()
        end = int(columns.start[self.drawn])
        fields = (columns.row[:end], columns.batch[:end], columns.gpu_centi[:end])
        if not self._skip:
            return fields
        potential = ~np.isin(fields[1], list(self._skip))
        return tuple(field[potential] for field in fields)  # type: ignore[return-value]

    def jobs(self, batches: Ints) -> Ints:
        """A number for the job of each of these batches."""
        return self._source.jobs()[batches]

    def states(self) -> Iterator[bool]:
        """Every state whose bound holds; the first says False: no potential victims yet.

        Once the bound holds it holds for all that follow. So it is fed no further from there, not even what a
        jump went over.
        """
        if self.bound.holds:
            yield False
        step = 0
        holds = self.bound.holds
        while True:
            if not holds and step >= _STEPS:
                drawn = self._jump()
                if drawn is not None:
                    if drawn < 0:
                        return
                    self.drawn = drawn
                    holds = True
            batch = self._source.get(self.drawn)
            if batch is None:
                return
            self.drawn += 1
            if batch.number in self._skip:
                continue
            step += 1
            if not holds:
                self.bound.add(batch.tasks)
                holds = self.bound.holds
            if holds:
                yield True

    def _jump(self) -> int | None:
        """The batch with which the bound first holds; -1 if none does, None if only steps can tell."""
        source = self._source
        ahead = max(_STEPS, 1)  # or it would not grow
        # Whom nobody is asked about is drawn in vain at the worst.
        if self.drawn and not source.asks:
            ahead = max(ahead, self.bound.fewest(self.latest.tasks) // 2)
        while True:
            ahead *= 2
            more = source.get(self.drawn + ahead) is not None
            columns = source.columns()
            if self._skip:
                columns = _without(columns, self._skip)
            drawn = self.bound.first_holding(columns, begin=self.drawn, of_class=source.classes)
            if drawn is None or drawn >= 0 or not more:
                return drawn


def _without(columns: TaskColumns, recorded: frozenset[int]) -> TaskColumns:
    """Recorded batches count already: nothing more is freed by them."""
    return replace(columns, row=np.where(np.isin(columns.batch, list(recorded)), -1, columns.row))


def node_local_greedy(state: Accumulation) -> Iterator[Proposal]:
    """Around the nodes of the latest victim: every batch of every job that has a victim there."""
    for any_potential in state.states():
        if not any_potential:
            if state.recorded:
                yield ()
            continue
        if state.drawn == 1 and len(state.latest.tasks) == 1:
            # What the arrays would say of one pod, without making them: often it is the only state.
            yield (state.latest,)
            continue
        rows, batches, _ = state.columns()
        jobs, table = state.jobs(batches), state.session.nodes
        mine = jobs == jobs[-1]
        seen: set[frozenset[int]] = set()
        # By name, as in the original: of several nodes that would do the first one counts.
        for row in sorted(set(rows[mine].tolist()) - {-1}, key=lambda row: table.nodes[row].name):
            there = np.unique(jobs[rows == row])
            numbers = frozenset(batches[np.isin(jobs, there)].tolist())
            if numbers not in seen:
                seen.add(numbers)
                yield state.chosen(numbers)


def multi_node_gang(state: Accumulation) -> Iterator[Proposal]:
    """The emptiest nodes whose capacity together covers the gang, then more of them."""
    smallest = min(map(gpu_need, state.tasks), default=0)
    total = sum(map(gpu_need, state.tasks))
    for any_potential in state.states():
        if not any_potential:
            yield ()
            continue
        rows, batches, gpu_centi = state.columns()
        capacity = _capacities(state, rows, gpu_centi)
        appeared = _by_appearance(rows)
        # What is free where nobody has to go need not be taken from anybody.
        need = max(0.0, total - float(capacity.sum() - capacity[appeared].sum()))
        nodes = appeared[capacity[appeared] >= smallest - _NEAR] if smallest else appeared
        nodes = nodes[np.argsort(capacity[nodes], kind="stable")]  # of equals those that appeared first
        reached = np.cumsum(capacity[nodes])
        count = 0 if need <= 0 else int(np.searchsorted(reached, need - _NEAR)) + 1
        if count > len(nodes):
            continue
        step = 1
        # One node more, then two and four more, as in the original; the last time all of them.
        while True:
            yield state.chosen(set(batches[np.isin(rows, nodes[:count])].tolist()))
            if count >= len(nodes):
                break
            count = min(count + step, len(nodes))
            step *= 2


def _by_appearance(rows: Ints) -> Ints:
    found, first = np.unique(rows, return_index=True)
    found = found[np.argsort(first)]
    return found[found >= 0]


def gpu_need(task: Task) -> float:
    """GPUs that a task asks for; those of GPU memory count as nothing, as they depend on the node."""
    return task.cls.gpu_centi / GPU_CENTI


def _capacities(state: Accumulation, rows: Ints, gpu_centi: Ints) -> Floats:
    """GPUs of each node that are free, being released, or held by recorded and potential victims.

    Exact, as nodes are ranked by it; :func:`~kai.engine.kernel.room.free_centi` is an upper bound.
    """
    table = state.session.nodes
    capacity = (table.idle[:, GPU] + table.releasing[:, GPU]).astype(np.float64)
    for node in table.sharing.values():
        capacity[node.row] += sum(free for _, free in node.free_parts()) / max(node.gpu_memory_mib, 1)
    held = rows >= 0
    capacity += np.bincount(rows[held], weights=gpu_centi[held], minlength=len(table)) / GPU_CENTI
    for batch in state.recorded:
        for task in batch.tasks:
            where = node_of(task)
            if where is not None and task.charged is not None:
                capacity[where.row] += task.charged.gpu_centi / GPU_CENTI
    return capacity


#: By plugin: the generator's name in budgets and metrics, and what proposes scenarios.
GENERATORS: Final[dict[str, tuple[str, Callable[[Accumulation], Iterator[Proposal]]]]] = {
    "sg-nodelocalgreedy": ("NodeLocalGreedy", node_local_greedy),
    "sg-multinodegang": ("MultiNodeGang", multi_node_gang),
}
