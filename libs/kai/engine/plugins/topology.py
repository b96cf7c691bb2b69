"""Topology constraints: which domains can take a group of pods, and in which order they are tried.

Levels of a topology are columns of domain numbers over nodes; everything about a domain is a sum over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import NodeSets, Plugin
from kai.engine.kernel.labels import NodeLabels
from kai.engine.kernel.room import free_centi, free_slots, free_slots_of
from kai.engine.kernel.view import NEVER
from kai.engine.reasons import Unschedulable
from kai.model.arrays import Floats, Ints, Mask
from kai.model.decisions import Reason
from kai.model.objects import Topology, TopologyConstraint
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.resources import GPU, PODS
from kai.snapshot.rows import Job, PodSet, SubGroupSet, Task
from kai.snapshot.state import Kind
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.table import NodeTable

#: How full a domain would be that has nothing free of what is asked for; the original's number.
_NOTHING_FREE: Final = 1000.0
_ROOT: Final = -1
#: Of so many kinds of pods at most it is counted how many of each fit: that takes time by their square.
_COUNTED: Final = 16
_Amounts = TypeVar("_Amounts", Ints, Floats)


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
        self._free = (table.idle + table.releasing) * inside[:, None]
        self._inside = inside
        classes = Counter(task.cls for task in tasks)
        #: For each amount counted: ``[nodes]`` how often it fits, and how many pods ask for no less.
        self._slots = _counts(table, classes, inside)
        self._request = _request(tasks)
        #: Of pods that differ: ``[nodes, resources]`` what there is for all of them, and what they ask for.
        self._shared_out = _shared_out(table, classes) if len(classes) > 1 else None
        self._by_level: dict[int, tuple[Mask, Floats]] = {}

    def _level(self, depth: int) -> tuple[Mask, Floats]:
        """``[domains]`` whether the pods may fit, and how full the domain would be."""
        known = self._by_level.get(depth)
        if known is None:
            fits = np.ones(1 if depth == _ROOT else len(self._tree.paths[depth]), dtype=bool)
            for slots, wanted in self._slots:
                fits &= self._sum(slots, depth) >= wanted
            if self._shared_out is not None:
                have, asked = self._shared_out
                fits &= (self._sum(have, depth) >= asked).all(axis=1)
            known = self._by_level[depth] = (fits, self._ratios(self._sum(self._free, depth)))
        return known

    def _sum(self, amounts: _Amounts, depth: int) -> _Amounts:
        """``[domains, ...]`` sums of ``[nodes, ...]`` over the nodes of each domain."""
        inside = amounts[self._inside]
        if depth == _ROOT:
            return np.asarray(inside.sum(axis=0, keepdims=True))
        found = np.zeros((len(self._tree.paths[depth]), *amounts.shape[1:]), dtype=amounts.dtype)
        np.add.at(found, self._tree.domains[depth][self._inside], inside)
        return found

    def _ratios(self, free: Ints) -> Floats:
        worst = np.zeros(len(free))
        for column, amount in self._request.items():
            have = free[:, column].astype(np.float64)
            ratio = np.where(have > 0, amount / np.where(have > 0, have, 1.0), _NOTHING_FREE)
            worst = np.maximum(worst, ratio)
        return worst

    def fits(self, depth: int, domain: int) -> bool:
        """Whether the pods may fit into a domain: false only if they cannot, by counts and sums.

        Of pods that are alike a yes is exact as far as amounts go, of others only trying tells.
        """
        return bool(self._level(depth)[0][domain])

    def ratio(self, depth: int, domain: int) -> float:
        """How full the domain would be."""
        return float(self._level(depth)[1][domain])


def _counts(table: NodeTable, classes: Mapping[TaskClass, int], inside: Mask) -> list[tuple[Ints, int]]:
    """For each class how many fit, and how many must; of many classes only for what all ask for."""
    amounts = {cls: dict(cls.items) for cls in classes}
    if len(classes) <= _COUNTED:
        return [(free_slots(table, cls, inside), _as_large(classes, amounts, cls)) for cls in classes]
    columns = set[int].intersection(*(set(asks) for asks in amounts.values()))
    least = {column: min(asks[column] for asks in amounts.values()) for column in columns}
    return [(free_slots_of(table, least, inside), sum(classes.values()))]


def _as_large(
    classes: Mapping[TaskClass, int], amounts: Mapping[TaskClass, Mapping[int, int]], least: TaskClass
) -> int:
    """Pods that ask for no less of anything than those of a class: so many must fit of that class."""
    if least.shared:  # how parts of devices are given is told by no single amount
        return classes[least]
    return sum(
        count
        for cls, count in classes.items()
        if cls is least or all(amounts[cls].get(column, 0) >= amount for column, amount in least.items)
    )


def _shared_out(table: NodeTable, classes: Mapping[TaskClass, int]) -> tuple[Floats, Floats]:
    """``[nodes, resources]`` what is free or being released, and ``[resources]`` what all pods ask for.

    GPUs are hundredths in both, with the free parts of shared devices. Pods that ask for an amount of GPU
    memory count for none: which part of a device that is depends on the node. Floats, since what absurd pods
    ask for together does not fit into 64 bits.
    """
    have = np.maximum(table.idle + table.releasing, 0).astype(np.float64)
    have[:, GPU] = free_centi(table)
    asked = np.zeros(have.shape[1])
    for cls, count in classes.items():
        for column, amount in cls.items:
            asked[column] += count * amount * (GPU_CENTI if column == GPU else 1)
        if cls.shared:
            asked[GPU] += count * cls.devices * cls.portion_centi
    return have, asked


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
