"""Topology constraints: which domains can take a group of pods, and in which order they are tried.

Levels of a topology are columns of domain numbers over nodes; everything about a domain is a sum over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import NodeSets, Plugin
from kai.engine.kernel.labels import NodeLabels
from kai.engine.kernel.room import free_slots
from kai.engine.kernel.view import NEVER
from kai.engine.reasons import Unschedulable
from kai.model.arrays import Floats, Ints, Mask
from kai.model.decisions import Reason
from kai.model.objects import Topology, TopologyConstraint
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Job, PodSet, SubGroupSet, Task
from kai.snapshot.state import Kind
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.table import NodeTable

#: How full a domain would be that has nothing free of what is asked for; the original's number.
_NOTHING_FREE: Final = 1000.0
_ROOT: Final = -1


@dataclass(frozen=True, slots=True)
class _Tree:
    """One topology over the nodes; a domain is a path of label values, not the last of them."""

    levels: tuple[str, ...]
    aliases: dict[str, int]
    #: Nodes that have all labels.
    members: Mask
    #: ``[levels, nodes]`` number of a node's domain at a level; -1 outside.
    domains: Ints
    #: By level and number: the path of label values, and the number of the domain above.
    paths: tuple[tuple[tuple[str, ...], ...], ...]
    parents: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, topology: Topology, labels: NodeLabels) -> _Tree:
        keys = tuple(level.node_label for level in topology.spec.levels)
        aliases = {level.alias: depth for depth, level in enumerate(topology.spec.levels) if level.alias}
        aliases |= {key: depth for depth, key in enumerate(keys)}
        columns = [labels.column(key) for key in keys]
        members = np.ones(len(labels.nodes), dtype=bool)
        for numbers, _ in columns:
            members &= numbers >= 0
        domains = np.full((len(keys), len(members)), -1, dtype=np.int64)
        paths: list[tuple[tuple[str, ...], ...]] = []
        parents: list[tuple[int, ...]] = []
        above = np.zeros(np.count_nonzero(members), dtype=np.int64)
        begun: tuple[tuple[str, ...], ...] = ((),)
        for depth, (numbers, values) in enumerate(columns):
            # Ordered by the domain above and then by value, domains are in the order of their paths.
            order = sorted(range(len(values)), key=values.__getitem__)
            ranks = np.empty(len(values), dtype=np.int64)
            ranks[order] = np.arange(len(values))
            found, above = np.unique(above * len(values) + ranks[numbers[members]], return_inverse=True)
            domains[depth, members] = above
            origins = [divmod(code, len(values)) for code in found.tolist()]
            begun = tuple((*begun[parent], values[order[rank]]) for parent, rank in origins)
            paths.append(begun)
            parents.append(tuple(parent for parent, _ in origins))
        return cls(keys, aliases, members, domains, tuple(paths), tuple(parents))


#: By the name of a topology; None where there is none.
_TREES: Final = Kept[dict[str, _Tree | None]](lent=as_it_is)


def opened(handle: Handle) -> tuple[Plugin, ...]:
    """It is needed even where nobody waits: bounds of searches go by it."""
    return (TopologyPlugin(handle),)


class TopologyPlugin(NodeSets):
    """The ``topology`` plugin in one cycle."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        stamp = (handle.nodes.epoch, handle.versions[Kind.TOPOLOGY])
        self._trees = _TREES.get(handle.kept, stamp, dict)

    def _tree(self, name: str) -> _Tree | None:
        if name not in self._trees:
            topology = self._handle.objects[Kind.TOPOLOGY].get(name)
            self._trees[name] = None if topology is None else _Tree.of(topology, self._handle.filters.labels)
        return self._trees[name]

    def subsets(
        self,
        job: Job,
        member: PodSet | SubGroupSet,
        tasks: Sequence[Task],
        *,
        nodes: Mask | None,
        extra: Floats | None,
    ) -> Sequence[tuple[Mask | None, Floats | None]] | Unschedulable:
        """Node sets to try, tightest first, each with an addition to the node order."""
        constraint = member.constraint
        assert constraint is not None
        if not tasks or not (constraint.required_topology_level or constraint.preferred_topology_level):
            return [(nodes, extra)]
        return self._choose(job, member, constraint, tasks, nodes, extra)

    def required(self, constraint: TopologyConstraint) -> Ints | None:
        """Domain numbers of nodes at the required level; None if there is none, or it is unknown."""
        tree = self._tree(constraint.topology)
        depth = tree.aliases.get(constraint.required_topology_level) if tree is not None else None
        return None if tree is None or depth is None else tree.domains[depth]

    def _choose(
        self,
        job: Job,
        member: PodSet | SubGroupSet,
        constraint: TopologyConstraint,
        tasks: Sequence[Task],
        nodes: Mask | None,
        extra: Floats | None,
    ) -> list[tuple[Mask | None, Floats | None]] | Unschedulable:
        tree = self._tree(constraint.topology)
        if tree is None:
            return _refuse(
                f"topology {constraint.topology!r} does not exist; create it or change the constraint"
            )
        required, preferred = constraint.required_topology_level, constraint.preferred_topology_level
        for level in (required, preferred):
            if level and level not in tree.aliases:
                has = ", ".join(tree.levels)
                return _refuse(f"topology {constraint.topology!r} has no level {level!r}; it has {has}")
        if len(tree.members) and not tree.members.any():
            has = ", ".join(tree.levels)
            return _refuse(
                f"no node is part of topology {constraint.topology!r}: none has all of its labels, {has}"
            )
        wanted = tree.aliases[required] if required else None
        liked = tree.aliases[preferred] if preferred else None
        if wanted is not None and liked is not None and liked < wanted:
            liked = None  # whoever is within a domain of the required level is within a wider one
        valid = tree.members if nodes is None else tree.members & nodes
        start, start_depth = _start(tree, valid, liked)
        sums = _Sums(self._handle.nodes, tree, tasks, valid & start)
        if not sums.fits(_ROOT, 0):
            return _refuse(
                f"topology {constraint.topology!r} has no room for {len(tasks)} pods",
                Reason.NOT_ENOUGH_RESOURCES,
            )
        bottom = liked if liked is not None else wanted
        assert bottom is not None
        ordered = _Ordered(tree, sums, start_depth, bottom)
        # What a part prefers takes the place of what the parts above it do, as in the original.
        score = extra
        if liked is not None:
            score = _scores(tree, ordered.at(liked), liked)
        top = wanted if wanted is not None else _ROOT
        found: list[tuple[Mask | None, Floats | None]] = []
        occupied = self._occupied(tree, member, wanted)
        for depth in range(bottom, top - 1, -1):
            for domain in ordered.at(depth):
                if not sums.fits(depth, domain):
                    continue
                chosen = valid & start if depth == _ROOT else valid & start & (tree.domains[depth] == domain)
                if occupied is not None and depth != _ROOT and not (chosen & occupied).any():
                    continue
                found.append((chosen, score))
        if not found:
            where = f"level {required or preferred!r} of topology {constraint.topology!r}"
            return _refuse(
                f"no domain at {where} has room for {len(tasks)} pods of {job.key}",
                Reason.NOT_ENOUGH_RESOURCES,
            )
        return found

    def _occupied(self, tree: _Tree, member: PodSet | SubGroupSet, wanted: int | None) -> Mask | None:
        """Nodes of the required level's domains that hold pods of the group already; None if none do."""
        if wanted is None:
            return None
        held = {
            int(tree.domains[wanted, node.row])
            for task in _tasks_below(member)
            if ACTIVE_ALLOCATED[task.status] and (node := task.pipelined_node or task.node) is not None
        } - {-1}
        return np.isin(tree.domains[wanted], list(held)) if held else None


def _refuse(text: str, reason: Reason = Reason.POD_SCHEDULING_ERRORS) -> Unschedulable:
    return Unschedulable(reason, text)


def _tasks_below(member: PodSet | SubGroupSet) -> Iterator[Task]:
    if isinstance(member, PodSet):
        yield from member.tasks.values()
    else:
        for each in member.members:
            yield from _tasks_below(each)


def _start(tree: _Tree, valid: Mask, liked: int | None) -> tuple[Mask, int]:
    """The deepest domain that holds all valid nodes, not below the preferred level; and its depth."""
    start, depth = np.ones(len(valid), dtype=bool), _ROOT
    if not valid.any():
        return start, depth
    deepest = len(tree.levels) - 1 if liked is None else liked
    for level in range(deepest + 1):
        domains = np.unique(tree.domains[level][valid])
        if len(domains) != 1:
            break
        start, depth = tree.domains[level] == domains[0], level
    return start, depth


class _Sums:
    """What each domain has free, for one group of pods."""

    def __init__(self, table: NodeTable, tree: _Tree, tasks: Sequence[Task], inside: Mask) -> None:
        self._tree = tree
        self._tasks = tasks
        self._free = (table.idle + table.releasing) * inside[:, None]
        self._inside = inside
        self._slots = self._count_slots(table, tasks, inside)
        self._request = _request(tasks)
        self._by_level: dict[int, tuple[Ints | None, Floats]] = {}

    @staticmethod
    def _count_slots(table: NodeTable, tasks: Sequence[Task], inside: Mask) -> Ints | None:
        """``[nodes]`` pods that fit; None where pods are too different to be counted alike.

        Those that differ in amounts alone count as if each asked for the most of all. Like the original's
        rule that may refuse a domain into which they would fit.
        """
        classes = {task.cls.id: task.cls for task in tasks}
        if len(classes) == 1:
            (cls,) = classes.values()
            return free_slots(table, cls, inside)
        gpus = {cls.cpu_only for cls in classes.values()}
        other = {frozenset(column for column, _ in cls.items if column > PODS) for cls in classes.values()}
        if len(gpus) != 1 or len(other) != 1 or any(cls.shared for cls in classes.values()):
            return None
        largest: dict[int, int] = {}
        for cls in classes.values():
            for column, amount in cls.items:
                largest[column] = max(largest.get(column, 0), amount)
        columns = list(largest)
        free = table.idle[:, columns] + table.releasing[:, columns]
        slots = (free // np.array([largest[column] for column in columns])).min(axis=1)
        return np.where(inside, np.maximum(slots, 0), 0)

    def _level(self, depth: int) -> tuple[Ints | None, Floats]:
        known = self._by_level.get(depth)
        if known is None:
            if depth == _ROOT:
                slots = None if self._slots is None else self._slots.sum(keepdims=True)
                free = self._free.sum(axis=0, keepdims=True)
            else:
                numbers = self._tree.domains[depth][self._inside]
                count = len(self._tree.paths[depth])
                slots = None
                if self._slots is not None:
                    slots = np.bincount(numbers, weights=self._slots[self._inside], minlength=count).astype(
                        np.int64
                    )
                free = np.zeros((count, self._free.shape[1]), dtype=np.int64)
                np.add.at(free, numbers, self._free[self._inside])
            known = self._by_level[depth] = (slots, self._ratios(free))
        return known

    def _ratios(self, free: Ints) -> Floats:
        worst = np.zeros(len(free))
        for column, amount in self._request.items():
            have = free[:, column].astype(np.float64)
            ratio = np.where(have > 0, amount / np.where(have > 0, have, 1.0), _NOTHING_FREE)
            worst = np.maximum(worst, ratio)
        return worst

    def fits(self, depth: int, domain: int) -> bool:
        """Whether the pods fit into a domain, by counts where all are alike, else by sums."""
        slots, ratios = self._level(depth)
        if slots is not None:
            return bool(slots[domain] >= len(self._tasks))
        return bool(ratios[domain] <= 1)

    def ratio(self, depth: int, domain: int) -> float:
        """How full the domain would be."""
        return float(self._level(depth)[1][domain])


def _request(tasks: Sequence[Task]) -> dict[int, float]:
    total: dict[int, float] = {}
    for task in tasks:
        for column, amount in task.cls.items:
            if column != PODS:
                total[column] = total.get(column, 0) + amount
        if task.cls.shared and task.cls.gpu_centi:
            total[GPU] = total.get(GPU, 0) + task.cls.gpu_centi / GPU_CENTI
    return total


class _Ordered:
    """Domains in the order in which they are tried: the fullest first below each parent, then by name."""

    def __init__(self, tree: _Tree, sums: _Sums, start_depth: int, bottom: int) -> None:
        self._levels: dict[int, list[int]] = {_ROOT: [0]}
        order: list[int] = [0]
        for depth in range(bottom + 1):
            below: dict[int, list[int]] = {}
            inside = set(np.unique(tree.domains[depth][sums._inside]).tolist())
            for number, parent in enumerate(tree.parents[depth]):
                if number in inside:
                    below.setdefault(parent if depth else 0, []).append(number)
            paths = tree.paths[depth]
            order = [
                number
                for parent in order
                for number in sorted(
                    below.get(parent, ()),
                    key=lambda each: (-sums.ratio(depth, each), paths[each]),
                )
            ]
            self._levels[depth] = order
        del start_depth

    def at(self, depth: int) -> list[int]:
        """Domains of one level."""
        return self._levels[depth]


def _scores(tree: _Tree, ordered: Sequence[int], depth: int) -> Floats:
    """Later domains, the emptier ones, score higher; nodes of no domain are out."""
    by_domain = np.full(len(tree.paths[depth]) + 1, NEVER)
    count = len(ordered)
    for position, domain in enumerate(ordered):
        by_domain[domain] = ((position + 1) * Weight.TOPOLOGY_TENTHS // count) * Weight.TOPOLOGY
    found: Floats = by_domain[tree.domains[depth]]
    return found
