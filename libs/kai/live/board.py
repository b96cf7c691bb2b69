"""All of a cluster as it is looked at, brought up to date by what changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kai.live.devices import UNSEEN, Cell, Seats, seated
from kai.live.groups import Held, Lacking, held_alone, held_by, lacking
from kai.live.holders import Holder, Numbers
from kai.live.structure import Structure, shown, structure_of
from kai.model.decisions import ResourceVector
from kai.model.ids import PodGroupKey
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.kinds import Kind
from kai.snapshot.nodes import unavailable
from kai.snapshot.rows import Node, Queue
from kai.snapshot.state import ClusterState

#: States of nodes.
READY: Final = 0
CORDONED: Final = 1
NOT_READY: Final = 2
SET_ASIDE: Final = 3


@dataclass(slots=True)
class News:
    """What is otherwise than before. ``anew``: nodes or queues came or went, so indices mean others."""

    anew: bool = False
    nodes: set[int] = field(default_factory=set)
    #: Numbers of holders.
    holders: set[int] = field(default_factory=set)
    sums: bool = False
    #: How many pod groups there are in namespaces.
    counts: bool = False

    def __bool__(self) -> bool:
        return self.anew or bool(self.nodes) or bool(self.holders) or self.sums or self.counts


@dataclass(frozen=True, slots=True)
class QueueSums:
    """Of a queue, in thousandths of CPUs, bytes and GPUs; -1 is unlimited. Waiting is that below it, too."""

    quota: ResourceVector
    limit: ResourceVector
    fair_share: ResourceVector
    allocated: ResourceVector
    requested: ResourceVector
    waiting_groups: int
    waiting_gpus: float


@dataclass(frozen=True, slots=True)
class _Position:
    """Up to where a state was read: which one, its rows of nodes, and the log of those that changed."""

    state: ClusterState
    epoch: int
    topologies: int
    log: int


class Board:
    """Whoever brings it up to date is the only one to read it meanwhile, as with the state itself."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.structure: Structure | None = None
        #: By index of the node: who sits where, and the state of the node.
        self.seats: list[Seats] = []
        self.states: list[int] = []
        self.index: dict[str, int] = {}
        #: By number, those who hold something; by group, what waits.
        self.holders: dict[int, Held] = {}
        self.waiting: dict[PodGroupKey, Lacking] = {}
        self.queues: tuple[QueueSums, ...] = ()
        #: Hundredths of the GPUs that all of it waits for.
        self.waiting_centi = 0
        #: Pod groups by namespace.
        self.namespaces: Counter[str] = Counter()
        #: Hundredths of GPUs that are held.
        self.used_centi = 0
        #: Unix seconds.
        self.at = 0.0
        self._groups: set[PodGroupKey] = set()
        #: By queue, how many groups wait, and for how many hundredths of GPUs; those below it left out.
        self._lines: dict[str, tuple[int, int]] = {}
        #: On how many nodes each holder sits.
        self._nodes_of: Counter[int] = Counter()
        self._read: _Position | None = None

    def refresh(
        self,
        state: ClusterState,
        touched: Iterable[PodGroupKey] | None,
        *,
        fair: Mapping[str, ResourceVector],
    ) -> News:
        """Take in how a state is now; it is settled.

        Args:
            state: the same as before, or another one of the same cluster.
            touched: the pod groups that changed since, those that went included; None: any may have.
            fair: fair shares of queues by name, where they are known.

        Costs time by what changed: the nodes that the state's log names, with their pods, and these groups.
        Where the state is another or its nodes are, all are looked at.
        """
        self.at = state.now
        news = News()
        whole = touched is None or self._read is None or self._read.state is not state
        rows = self._rows_to_read(state) if not whole else None
        if rows is None or self._queues_differ(state):
            news.anew = self._restructure(state)
        if news.anew or rows is None:
            rows = range(len(state.nodes))
        self._read_nodes(state, rows, news)
        self._read_groups(state, None if whole else touched, news)
        if whole:
            self._forget()
        sums = self._sums(state, fair)
        news.sums = news.sums or sums != self.queues
        self.queues = sums
        self._read = _Position(state, state.nodes.epoch, state.versions[Kind.TOPOLOGY], state.nodes.log_end)
        return news

    def release(self) -> None:
        """Let go of the state that was read; the next one is read as a whole."""
        self._read = None

    # --- what is drawn once ------------------------------------------------------------------------
    def _rows_to_read(self, state: ClusterState) -> Collection[int] | None:
        """Rows of the nodes that changed; None where rows may mean others, or nobody knows."""
        read, table = self._read, state.nodes
        assert read is not None
        same = read.epoch == table.epoch and read.topologies == state.versions[Kind.TOPOLOGY]
        if not same or read.log < table.log_start:
            return None
        changed = set(table.touched[read.log - table.log_start :])
        # Time alone ends that they are set aside, and begins it where their pods failed.
        closed = state.refusals.closed(state.now).get("", ())
        aside = {self.index[name] for name in closed if name in self.index}
        aside.update(index for index, said in enumerate(self.states) if said == SET_ASIDE)
        assert self.structure is not None
        changed.update(table.by_name[self.structure.name[index]].row for index in aside)
        return changed

    def _queues_differ(self, state: ClusterState) -> bool:
        assert self.structure is not None
        told = self.structure.queues
        return len(told) != sum(queue.exists for queue in state.queue_rows) or any(
            before != (queue.name, queue.display_name, _parent(queue), queue.priority)
            for before, queue in zip(told, shown(state), strict=True)
        )

    def _restructure(self, state: ClusterState) -> bool:
        """Whether it is another structure; then nodes that are there still keep who sits where."""
        found = structure_of(state)
        if found == self.structure:
            return False
        before = {name: self.seats[index] for name, index in self.index.items()}
        self.structure = found
        self.index = {name: index for index, name in enumerate(found.name)}
        self.seats = [before.get(name, UNSEEN) for name in found.name]
        self.states = [READY] * len(found.name)
        self.used_centi = sum(seats.used_centi for seats in self.seats)
        self._nodes_of = Counter(number for seats in self.seats for number in _numbers(seats))
        return True

    # --- nodes -------------------------------------------------------------------------------------
    def _read_nodes(self, state: ClusterState, rows: Iterable[int], news: News) -> None:
        closed = state.refusals.closed(state.now).get("", {})
        nodes = state.nodes.nodes
        # In the order in which they are drawn, so that who is seen first has the first number.
        for index, node in sorted((self.index[nodes[row].name], nodes[row]) for row in rows):
            before, seats = self.seats[index], seated(self.seats[index], node, self.numbers.of)
            condition = state_of(node, aside=node.name in closed)
            if condition != self.states[index] or seats.cells != before.cells:
                news.nodes.add(index)
            self.seats[index], self.states[index] = seats, condition
            if seats.cells != before.cells:
                self.used_centi += seats.used_centi - before.used_centi
                self._recount(before, seats, news)
            self._read_ungrouped(node, news)

    def _recount(self, before: Seats, after: Seats, news: News) -> None:
        """On how many nodes each of these holders sits now."""
        old, new = _numbers(before), _numbers(after)
        self._nodes_of.update(new)
        self._nodes_of.subtract(old)
        for number in old ^ new:
            news.holders.add(number)
            if not self._nodes_of[number]:
                del self._nodes_of[number]

    def _read_ungrouped(self, node: Node, news: News) -> None:
        for task in node.tasks.values():
            if task.job is None and task.node is node:
                number = self.numbers.known(Holder(task.namespace, task.name, is_group=False))
                if number is not None and self._nodes_of[number]:
                    self._hold(number, held_alone(task), news)

    # --- groups ------------------------------------------------------------------------------------
    def _read_groups(self, state: ClusterState, touched: Iterable[PodGroupKey] | None, news: News) -> None:
        """Those that changed, and those that got something or lost it."""
        named = {*state.jobs, *self._groups} if touched is None else set(touched)
        for number in news.holders:
            holder = self.numbers.holder(number)
            if holder is not None and holder.is_group:
                named.add(PodGroupKey(holder.key))
            if not self._nodes_of[number]:
                self.holders.pop(number, None)
        for key in named:
            self._read_group(state, key, news)

    def _read_group(self, state: ClusterState, key: PodGroupKey, news: News) -> None:
        job = state.jobs.get(key)
        namespace, _, name = key.partition("/")
        if (job is not None) != (key in self._groups):
            self.namespaces[namespace] += 1 if job is not None else -1
            if not self.namespaces[namespace]:
                del self.namespaces[namespace]
            news.counts = True
            (self._groups.add if job is not None else self._groups.discard)(key)
        found = lacking(job) if job is not None else None
        if found != self.waiting.get(key):
            news.sums = True
            self._wait(self.waiting.pop(key, None), -1)
            self._wait(found, 1)
            if found is not None:
                self.waiting[key] = found
        number = self.numbers.known(Holder(namespace, name))
        if job is not None and number is not None and self._nodes_of[number]:
            self._hold(number, held_by(job), news)

    def _wait(self, lack: Lacking | None, sign: int) -> None:
        if lack is not None:
            groups, centi = self._lines.get(lack.queue, (0, 0))
            self._lines[lack.queue] = groups + sign, centi + sign * lack.gpu_centi
            self.waiting_centi += sign * lack.gpu_centi

    def _hold(self, number: int, held: Held, news: News) -> None:
        if self.holders.get(number) != held:
            self.holders[number] = held
            news.holders.add(number)

    def _forget(self) -> None:
        """Numbers of groups that are gone."""
        self.numbers.keep(
            lambda holder: (
                (holder.is_group and holder.key in self._groups)
                or bool(self._nodes_of[self.numbers.of(holder)])
            )
        )

    # --- queues ------------------------------------------------------------------------------------
    def _sums(self, state: ClusterState, fair: Mapping[str, ResourceVector]) -> tuple[QueueSums, ...]:
        there = shown(state)
        lines = {queue.name: self._lines.get(queue.name, (0, 0)) for queue in there}
        for queue in reversed(there):  # children before their parents
            parent = _parent(queue)
            if parent:
                own, (groups, centi) = lines[parent], lines[queue.name]
                lines[parent] = own[0] + groups, own[1] + centi
        return tuple(
            QueueSums(
                quota=queue.deserved,
                limit=queue.limit,
                fair_share=fair.get(queue.name, (0.0, 0.0, 0.0)),
                allocated=queue.allocated.vector(),
                requested=queue.requested,
                waiting_groups=lines[queue.name][0],
                waiting_gpus=lines[queue.name][1] / GPU_CENTI,
            )
            for queue in there
        )


def state_of(node: Node, *, aside: bool) -> int:
    """Whether a node takes pods, as a number."""
    if node.object.spec.unschedulable:
        return CORDONED
    if not node.ready:
        return NOT_READY
    return SET_ASIDE if aside else READY


def why_not(node: Node) -> str:
    """Why a node takes no pods; empty if it does, as far as it says so itself."""
    return unavailable(node.object)


def _parent(queue: Queue) -> str:
    return queue.parent.name if queue.parent is not None and queue.parent.exists else ""


def _numbers(seats: Seats) -> set[int]:
    found: set[int] = set()
    for cell in set(seats.cells):
        found.update(_of(cell))
    return found


def _of(cell: Cell) -> Iterable[int]:
    return (number for number, _ in cell) if not isinstance(cell, int) else ((cell,) if cell else ())
