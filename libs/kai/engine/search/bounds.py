"""Necessary conditions, cheap enough to ask at every step: how many pods of a class could ever fit.

A node's contribution is what it could be after everything given so far is gone. The sum over nodes is an
upper bound on what a simulation can place, so a simulation is worth its cost only where the bound holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from kai.engine.framework.session import Session
from kai.engine.kernel.room import PLENTY, Room
from kai.engine.kernel.room import free_centi as of_nodes
from kai.engine.kernel.selections import Selection
from kai.engine.queueing.victims import TaskColumns
from kai.model.arrays import Ints, ShortInts
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept
from kai.snapshot.kinds import Kind
from kai.snapshot.resources import GPU, NOBODY, PODS
from kai.snapshot.rows import Job, Node, Task, tasks_by_class

#: From so many tasks on they are counted by class.
_MANY: Final = 64
#: What is free, by class.
_ROOMS: Final = Kept[dict[int, Room]]()
#: Hundredths of GPUs that are free or will be, while no node changes.
_FREE_CENTI: Final = Kept[int]()
#: ``[columns]`` what is free or will be on ready nodes, while no node changes.
_FREE: Final = Kept[Ints]()
#: Whether chunks would not even fit on empty nodes.
_NEVER_FIT: Final = Kept[dict[tuple[object, ...], bool]]()


def free_and_needed(session: Session, cls: TaskClass) -> tuple[Ints, Ints]:
    """``[nodes, columns]`` what is free or being released, and ``[columns]`` what a pod of a class takes.

    One column for each resource of the class, in its order and units. Where it shares devices one more
    follows: hundredths of GPUs, of the smallest GPU for what is needed. Costs time by the number of nodes.
    """
    room = Room(session.nodes, cls, session.view(cls).allowed)
    room.refresh()
    needed = [amount for _, amount in cls.items]
    if cls.shared:
        needed.append(max(cls.quota_centi(session.state.min_gpu_memory_mib), 1))
    return room.free, np.array(needed, dtype=np.int64)


class SlotBound:
    """An upper bound on pods of one class, as victims are given up one after the other."""

    def __init__(self, session: Session, cls: TaskClass) -> None:
        table, allowed = session.nodes, session.view(cls).allowed
        self._table, self._nodes = table, table.nodes
        self._columns = tuple(column for column, _ in cls.items)
        self._amounts = tuple(amount for _, amount in cls.items)
        self._allowed = allowed
        self._shared = cls if cls.shared else None
        rooms = _ROOMS.get(session.memo, None, dict)
        room = rooms.get(cls.id)
        if room is None:
            room = rooms[cls.id] = Room(table, cls, allowed)
        room.refresh()
        self._free = room.free
        #: ``[nodes]`` pods that fit with nobody gone.
        self.base = room.slots
        self._base_total = self.total = room.total
        self._changed: dict[int, list[int]] = {}
        self._slots: dict[int, int] = {}
        self._gain: dict[int, tuple[int, ...]] = {}

    def most_of_one_node(self) -> int:
        """How many more pods fit if one node becomes empty, at most; no bound where devices are shared."""
        if self._shared is not None:
            return PLENTY
        table, columns = self._table, list(self._columns)
        amounts = np.array(self._amounts, dtype=np.int64)
        empty = (table.allocatable[:, columns] // amounts).min(axis=1, initial=PLENTY)
        now = ((table.idle[:, columns] + table.releasing[:, columns]) // amounts).min(axis=1, initial=PLENTY)
        return int((empty - np.maximum(now, 0)).max(initial=0))

    def add(self, tasks: Iterable[Task]) -> None:
        """Count some tasks as gone from now on, each once; in the state they are where they were."""
        for task in tasks:
            node = task.pipelined_node or task.node
            if node is None or not self._allowed[node.row]:
                continue
            row = node.row
            free = self._changed.get(row)
            if free is None:
                free = self._changed[row] = self._free[row].tolist()
                self._slots[row] = int(self.base[row])
            for position, amount in enumerate(self._gains(task, node)):
                free[position] += amount
            slots = self._slots_of(free, node)
            self.total += slots - self._slots[row]
            self._slots[row] = slots

    def totals(self, rows: Ints, *, classes: Ints, of_class: Mapping[int, TaskClass]) -> Ints | None:
        """``[tasks]`` the bound after each of some further tasks is gone, in order; None if that needs steps.

        Nothing changes: :meth:`add` makes it last. Classes that share devices need steps.

        Args:
            rows: ``[tasks]`` the row of each task's node, -1 for none.
            classes: ``[tasks]`` the number of each task's class.
            of_class: the classes by number.
        """
        if self._shared is not None:
            return None
        gains = np.zeros((int(classes.max(initial=-1)) + 1, len(self._columns)), dtype=np.int64)
        for number in np.flatnonzero(np.bincount(classes)).tolist():
            gains[number] = self._gains_of(of_class[number])
        usable = (rows >= 0) & self._allowed[rows]
        order = np.flatnonzero(usable)
        order = order[np.argsort(rows[order], kind="stable")]
        if not len(order):
            return np.full(len(rows), self.total)
        row = rows[order]
        # One running sum over all nodes, from which what it was where each node begins is taken off.
        freed = np.cumsum(gains[classes[order]], axis=0)
        first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        lengths = np.diff(np.r_[first, len(row)])
        before = np.where(first[:, None] > 0, freed[first - 1], 0)
        freed -= np.repeat(before, lengths, axis=0)
        slots = np.maximum(
            (_overlaid(self._free, self._changed)[row] + freed) // np.array(self._amounts, dtype=np.int64), 0
        ).min(axis=1)
        # What a task changes is counted from the one before it on its node; the first from what is so far.
        earlier = np.r_[0, slots[:-1]]
        earlier[first] = _overlaid(self.base, self._slots)[row[first]]
        change = np.zeros(len(rows), dtype=np.int64)
        change[order] = slots - earlier
        return self.total + np.cumsum(change)

    def fewest(self, count: int, tasks: Sequence[Task]) -> int:
        """How many that are like these have to go at least before so many pods fit, by what is free now.

        A guess where others are among them; 0 where devices are shared.
        """
        if self._shared is not None or not tasks:
            return 0
        usable = self._free[self._allowed]
        lacking = count * np.array(self._amounts, dtype=np.int64) - np.maximum(usable, 0).sum(axis=0)
        gains = np.max([self._gains_of(task.cls) for task in tasks], axis=0)
        needed = [
            -(-lack // gain) for lack, gain in zip(lacking.tolist(), gains.tolist(), strict=True) if gain > 0
        ]
        return max(needed, default=0)

    def reach(self, tasks: Sequence[Task]) -> int:
        """What the bound would be with just these tasks gone, whatever was added before. Nothing changes."""
        if len(tasks) >= _MANY and self._shared is None:
            return self._reach_of_many(tasks)
        freed: dict[int, list[int]] = {}
        for task in tasks:
            node = task.pipelined_node or task.node
            if node is None or not self._allowed[node.row]:
                continue
            free = freed.get(node.row)
            if free is None:
                free = freed[node.row] = self._free[node.row].tolist()
            for position, amount in enumerate(self._gains(task, node)):
                free[position] += amount
        total = self._base_total
        for row, free in freed.items():
            total += self._slots_of(free, self._nodes[row]) - int(self.base[row])
        return total

    def _reach_of_many(self, tasks: Sequence[Task]) -> int:
        """The same, with counts for each class instead of steps."""
        free = self._free.copy()
        for cls, members in tasks_by_class(tasks).items():
            nodes = [task.pipelined_node or task.node for task in members]
            rows = np.array([node.row for node in nodes if node is not None], dtype=np.int64)
            free += np.outer(np.bincount(rows, minlength=len(free)), self._gains_of(cls))
        slots = np.maximum((free // np.array(self._amounts, dtype=np.int64)).min(axis=1, initial=PLENTY), 0)
        changed = self._allowed & (free != self._free).any(axis=1)
        return self._base_total + int((slots - self.base)[changed].sum())

    def _gains(self, task: Task, node: Node) -> tuple[int, ...]:
        known = self._gain.get(task.cls.id)
        if known is None or self._shared is not None:
            known = self._gains_of(task.cls)
            if self._shared is not None:
                cls = task.cls
                known += (cls.devices * GPU_CENTI if cls.shared else cls.quota_centi(node.gpu_memory_mib),)
            self._gain[task.cls.id] = known
        return known

    def _gains_of(self, cls: TaskClass) -> tuple[int, ...]:
        amounts = dict(cls.items)
        # Each may be the last on its devices and of its claims, and then they are free as a whole. Whether it
        # is depends on who else goes, and a bound may be too large. With a device goes its reservation pod.
        if cls.shared:
            amounts[GPU] = cls.devices
            amounts[PODS] = amounts.get(PODS, 0) + cls.devices
        if cls.dra_gpus:
            amounts[GPU] = amounts.get(GPU, 0) + cls.dra_gpus
        return tuple(amounts.get(column, 0) for column in self._columns)

    def _slots_of(self, free: Sequence[int], node: Node) -> int:
        # Where devices are shared ``free`` has one number more, which no amount belongs to.
        slots = min(
            (have // amount for have, amount in zip(free, self._amounts, strict=False)), default=PLENTY
        )
        if self._shared is not None:
            slots = min(slots, free[-1] // max(self._shared.quota_centi(node.gpu_memory_mib), 1))
        return max(slots, 0)


def _overlaid(base: Ints, changed: Mapping[int, int | list[int]]) -> Ints:
    """The base with some rows changed."""
    if not changed:
        return base
    found = base.copy()
    for row, value in changed.items():
        found[row] = value
    return found


def free_centi(session: Session) -> int:
    """Hundredths of GPUs that are free or will be, in the whole cluster; parts count generously.

    An upper bound, kept until something changes on a node.
    """
    return _FREE_CENTI.get(session.memo, session.nodes.log_end, lambda: _all_free_centi(session))


def _all_free_centi(session: Session) -> int:
    table = session.nodes
    total = int(of_nodes(table).sum())
    for column, worth in session.state.resources.mig:
        free = int(np.maximum(table.idle[:, column] + table.releasing[:, column], 0).sum())
        total += GPU_CENTI * worth * free
    return total


def moving_may_do(session: Session, tasks: Sequence[Task]) -> bool:
    """Whether pods could find room by others moving elsewhere; False is sure, and True says nothing.

    Who moves takes as much elsewhere, so of each resource as much as is asked for must be free by now,
    wherever that is. GPUs are left out, as pods that share some may share fewer; where any are shared this
    says nothing at all, since that frees the pods that hold them, too.
    """
    if session.nodes.sharing:
        return True
    free = _FREE.get(session.memo, session.nodes.log_end, lambda: _all_free(session))
    needed: dict[int, int] = {}
    for task in tasks:
        for column, amount in task.cls.items:
            needed[column] = needed.get(column, 0) + amount
    return all(amount <= free[column] for column, amount in needed.items() if column not in (GPU, NOBODY))


def _all_free(session: Session) -> Ints:
    """Nodes that hold too much have nothing, which makes it more than there is."""
    table, static = session.nodes, session.static
    free = np.maximum(table.idle + table.releasing, 0)
    found: Ints = (free[static.ready] if static.binding else free).sum(axis=0)
    return found


def never_fits(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Whether a chunk would not even fit on empty nodes; False says nothing.

    Counted by class and, where it must be within one domain or must not share any, by domain. Kept for the
    session by the numbers of each class.
    """
    by_class = tasks_by_class(tasks)
    # Jobs that ask for the same may have to stay within domains of different levels.
    key = (
        job.key if job.has_constraint else "",
        *((cls.id, len(members)) for cls, members in by_class.items()),
    )
    known = _NEVER_FIT.get(session.memo, None, dict)
    if key not in known:
        known[key] = _never_fits(session, job, by_class)
    return known[key]


def _never_fits(session: Session, job: Job, by_class: Mapping[TaskClass, Sequence[Task]]) -> bool:
    table = session.nodes
    for cls, members in by_class.items():
        columns = [column for column, _ in cls.items]
        amounts = np.array([amount for _, amount in cls.items], dtype=np.int64)
        slots = (table.allocatable[:, columns] // amounts).min(axis=1, initial=PLENTY)
        slots = np.where(session.view(cls).allowed, slots, 0)
        # As if what is left of several devices made another part: too many, which a bound may be.
        if cls.shared:
            portion = np.fromiter(
                (max(cls.quota_centi(n.gpu_memory_mib), 1) for n in table.nodes),
                dtype=np.int64,
                count=len(table),
            )
            slots = np.minimum(slots, table.allocatable[:, GPU] * GPU_CENTI // portion)
        if int(slots.sum()) < len(members):
            return True
        domains = required_domains(session, job, members)
        if domains is not None and _most_in_one(slots, domains) < len(members):
            return True
        if any(
            _in_all(slots, numbers) < len(members) for numbers in _exclusive_domains(session, cls, members)
        ):
            return True
    return False


def required_domains(session: Session, job: Job, tasks: Sequence[Task]) -> Ints | None:
    """``[nodes]`` numbers of the domains within one of which all of these tasks must be, -1 outside all.

    None where no level is required of them, or they belong to several pod sets without a common constraint.
    """
    if session.plugins.node_sets is None or not job.has_constraint:
        return None
    constraint = job.root.constraint
    if constraint is None:
        sets = {task.pod_set.name: task.pod_set for task in tasks if task.pod_set is not None}
        constraint = next(iter(sets.values())).constraint if len(sets) == 1 else None
    if constraint is None or not constraint.required_topology_level:
        return None
    return session.plugins.node_sets.required(constraint)


def _exclusive_domains(session: Session, cls: TaskClass, tasks: Sequence[Task]) -> Iterator[ShortInts]:
    """Domain numbers of every key on which the tasks repel each other.

    Terms that some of the tasks do not match are left out, as those may share a domain with each other.
    """
    required = (cls.constraints.pod_anti_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    namespaces = session.state.objects[Kind.NAMESPACE]
    for term in required or ():
        selection = Selection(
            term, namespace=tasks[0].namespace, namespaces=namespaces, labels=tasks[0].labels or {}
        )
        if all(selection.matches(task.namespace, task.labels or {}) for task in tasks):
            yield session.static.labels.column(str(term.get("topologyKey", "")))[0]


def _most_in_one(slots: Ints, domains: Ints) -> int:
    inside = domains >= 0
    if not inside.any():
        return 0
    return int(np.bincount(domains[inside], weights=slots[inside]).max())


def _in_all(slots: Ints, domains: ShortInts) -> int:
    """One for each domain with room; nodes of no domain repel nobody."""
    inside = domains >= 0
    return len(np.unique(domains[inside & (slots > 0)])) + int(slots[~inside].sum())


class GangBound:
    """The bounds of all classes of a chunk; each must reach its own number of pods.

    Each class is counted as if no other took anything, so what they say together is necessary as well.
    """

    def __init__(self, session: Session, tasks: Sequence[Task]) -> None:
        counts: dict[int, int] = {}
        classes: dict[int, TaskClass] = {}
        for task in tasks:
            counts[task.cls.id] = counts.get(task.cls.id, 0) + 1
            classes[task.cls.id] = task.cls
        self.parts = [(SlotBound(session, cls), counts[number]) for number, cls in classes.items()]

    def add(self, tasks: Sequence[Task]) -> None:
        """Count some tasks as gone from now on, each once."""
        for bound, _ in self.parts:
            bound.add(tasks)

    def first_holding(
        self, columns: TaskColumns, *, begin: int, of_class: Mapping[int, TaskClass]
    ) -> int | None:
        """The first batch from ``begin`` on with which all bounds hold; -1 for none, None to take steps.

        Before: all batches before ``begin`` were added. Nothing changes. ``of_class`` are the classes by
        number.
        """
        start = int(columns.start[begin])
        latest = begin
        for bound, count in self.parts:
            totals = bound.totals(columns.row[start:], classes=columns.cls[start:], of_class=of_class)
            if totals is None:
                return None
            if bound.total >= count:
                continue
            # Totals only rise, as nobody who goes takes anything away.
            position = int(np.searchsorted(totals, count))
            if position >= len(totals):
                return -1
            latest = max(latest, int(columns.batch[start + position]))
        return latest

    @property
    def holds(self) -> bool:
        """Whether all pods could fit."""
        return all(bound.total >= count for bound, count in self.parts)

    def fewest(self, tasks: Sequence[Task]) -> int:
        """How many that are like these have to go at least before all pods could fit; a guess."""
        return max(bound.fewest(count, tasks) for bound, count in self.parts)

    def holds_with(self, tasks: Sequence[Task]) -> bool:
        """Whether all pods could fit with just these tasks gone."""
        return all(bound.reach(tasks) >= count for bound, count in self.parts)
