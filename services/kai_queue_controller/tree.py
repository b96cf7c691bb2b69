"""Sums of pod groups over the tree of queues.

Each pod group's amounts are held apart, so that a change is a subtraction and an addition; amounts are
exact, so that nothing drifts. Queues of any depth are summed up in one pass from the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from kai.model import resource_lists
from kai.model.objects import (
    ApiObject,
    ApiStruct,
    Json,
    PodGroupResources,
    Queue,
    QueueStatus,
)
from kai.model.resource_lists import amounts

#: Amounts by resource name.
Amounts = dict[str, Decimal]


class _PodGroupSpec(ApiStruct):
    queue: str = ""


class _PodGroupStatus(ApiStruct):
    resources_status: PodGroupResources | None = None


class PodGroupRecord(ApiObject):
    """A PodGroup, without most of it."""

    spec: _PodGroupSpec = msgspec.field(default_factory=_PodGroupSpec)
    status: _PodGroupStatus | None = None


@dataclass(slots=True)
class Sums:
    """The three amounts that a queue's status shows."""

    allocated: Amounts = field(default_factory=dict)
    allocated_non_preemptible: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)

    def __iter__(self) -> Iterator[Amounts]:
        return iter((self.allocated, self.allocated_non_preemptible, self.requested))

    def add(self, other: Sums, *, sign: int = 1) -> None:
        """Add another one's amounts, or take them away; what becomes nothing is dropped."""
        for mine, theirs in zip(self, other, strict=True):
            for resource, amount in theirs.items():
                total = mine.get(resource, Decimal(0)) + sign * amount
                if total:
                    mine[resource] = total
                else:
                    mine.pop(resource, None)


def sums_of(resources: PodGroupResources | None) -> Sums:
    """The amounts that a pod group's status tells."""
    if resources is None:
        return Sums()
    return Sums(
        amounts(resources.allocated),
        amounts(resources.allocated_non_preemptible),
        amounts(resources.requested),
    )


def _unheard(queue: str, sums: Sums, sign: int) -> None:
    """Nobody is told."""


class Workloads:
    """What the pod groups of each queue add up to, the queues below it left out.

    ``charged`` is told of each change: the queue, the amounts, and 1 or -1.
    """

    def __init__(self, charged: Callable[[str, Sums, int], None] = _unheard) -> None:
        self._charged = charged
        self._groups: dict[str, tuple[str, Sums]] = {}
        self._queues: dict[str, Sums] = {}

    def put(self, key: str, queue: str, resources: PodGroupResources | None) -> bool:
        """Take in a pod group as it is now; whether that changes any sum."""
        new = (queue, sums_of(resources))
        if self._groups.get(key) == new:
            return False
        self.drop(key)
        self._groups[key] = new
        self._queues.setdefault(queue, Sums()).add(new[1])
        self._charged(*new, 1)
        return True

    def drop(self, key: str) -> bool:
        """A pod group is gone; whether it was known."""
        old = self._groups.pop(key, None)
        if old is None:
            return False
        queue, sums = old
        # Amounts may cancel out while groups remain, so their queue may be unknown here.
        local = self._queues.setdefault(queue, Sums())
        local.add(sums, sign=-1)
        if not any(local):
            del self._queues[queue]
        self._charged(queue, sums, -1)
        return True

    def of(self, queue: str) -> Sums:
        """The sums of a queue's own pod groups; do not modify."""
        return self._queues.get(queue) or Sums()


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """A queue with all below it. ``depth`` is 0 for queues without parent, and in and below a circle."""

    depth: int
    children: tuple[str, ...]
    sums: Sums

    def counts_in(self, parent: QueueTotals) -> bool:
        """Whether it counts in its parent, too: not in a circle, nor below one."""
        return self.depth > parent.depth


def totals(queues: Mapping[str, Queue], workloads: Workloads) -> dict[str, QueueTotals]:
    """Totals of all queues, children before their parents.

    Each queue counts in each of its ancestors once. Queues whose parents go round in a circle count
    only in themselves, as do all below them; a parent that does not exist is none.
    """
    children: dict[str, list[str]] = {}
    for name, queue in queues.items():
        children.setdefault(queue.spec.parent_queue, []).append(name)
    found: dict[str, QueueTotals] = {}
    for name, depth in _deepest_first(queues):
        sums = Sums()
        sums.add(workloads.of(name))
        below = sorted(children.get(name, ()))
        found[name] = total = QueueTotals(depth, tuple(below), sums)
        for child in below:
            if child in found and found[child].counts_in(total):
                sums.add(found[child].sums)
    return found


def _deepest_first(queues: Mapping[str, Queue]) -> list[tuple[str, int]]:
    depths = {name: _depth(name, queues) for name in queues}
    return sorted(depths.items(), key=lambda item: (-item[1], item[0]))


def _depth(name: str, queues: Mapping[str, Queue]) -> int:
    """Number of ancestors; 0 for a queue that is its own ancestor."""
    path = {name}
    parent = queues[name].spec.parent_queue
    while parent in queues:
        if parent in path:
            return 0
        path.add(parent)
        parent = queues[parent].spec.parent_queue
    return len(path) - 1


def status_patch(
    wanted: QueueTotals, stored: QueueStatus | None, conditions: Sequence[Json] | None = None
) -> Json | None:
    """The merge patch of a queue's status, with ``conditions`` if given; None if it says this already."""
    stored = stored or QueueStatus()
    patch: Json = {}
    if sorted(stored.child_queues or ()) != list(wanted.children):
        patch["childQueues"] = list(wanted.children)
    fields = (
        ("allocated", wanted.sums.allocated, stored.allocated),
        ("allocatedNonPreemptible", wanted.sums.allocated_non_preemptible, stored.allocated_non_preemptible),
        ("requested", wanted.sums.requested, stored.requested),
    )
    for name, new, old in fields:
        changes = resource_lists.difference(resource_lists.rendered(new), old or {})
        if changes:
            patch[name] = changes
    if conditions is not None:
        patch["conditions"] = list(conditions)
    return patch or None


def by_depth(found: Iterable[tuple[str, QueueTotals]]) -> list[list[str]]:
    """Names of queues in groups of equal depth, the deepest first."""
    levels: dict[int, list[str]] = {}
    for name, total in found:
        levels.setdefault(total.depth, []).append(name)
    return [sorted(levels[depth]) for depth in sorted(levels, reverse=True)]
