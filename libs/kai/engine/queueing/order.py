"""The order in which jobs of many queues are served, and in which victims are taken.

A tree of heaps follows the hierarchy of queues. A queue's key depends on what it holds and on its next job,
so it is computed again when either may have changed, and only then.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from kai.engine.queueing.queue_order import QueueKey
from kai.model.ids import NOBODY, PodUid
from kai.snapshot.rows import Job, Queue

#: Ranks, when the job was created, its name and its namespace.
JobKey: TypeAlias = tuple[Any, ...]
_ONLY: Final[QueueKey] = ()
Head = TypeVar("Head")
Head_co = TypeVar("Head_co", covariant=True)


class Ranking(Protocol):
    """Ranks jobs, the lowest first."""

    def rank(self, job: Job, gone: frozenset[PodUid], /) -> float:
        """Of one, with some of its pods, by uid, counted as gone."""

    def ranks(self, jobs: Sequence[Job], /) -> list[float]:
        """Of each, nobody gone."""


class KeyOfJob:
    """A key of jobs, the smallest first: by ranks, the first that differ counting, then age, then name."""

    def __init__(self, rankings: Sequence[Ranking]) -> None:
        self._rankings = rankings

    def __call__(self, job: Job, gone: frozenset[PodUid] = NOBODY, /) -> JobKey:
        """The key of one job; with some of its pods, by uid, counted as gone."""
        ranks = [each.rank(job, gone) for each in self._rankings]
        return (*ranks, job.created, job.name, job.namespace)

    def of_many(self, jobs: Sequence[Job]) -> list[JobKey]:
        """The key of each, nobody gone: in a fraction of the time that as many single ones take."""
        return list(
            zip(
                *[each.ranks(jobs) for each in self._rankings],
                [job.created for job in jobs],
                [job.name for job in jobs],
                [job.namespace for job in jobs],
                strict=True,
            )
        )


class Leaf(Protocol[Head_co]):
    """The jobs of one queue, in order."""

    def head(self) -> Head_co | None:
        """The next job; None if there is no more."""

    def pop(self) -> Head_co:
        """Take the next job; there is one."""


class QueueNode(Generic[Head]):
    """A queue of the tree; nobody above refers to it but by name, so that no circles are left behind."""

    __slots__ = ("children", "depth", "heap", "key", "known", "leaf", "parent", "queue", "tie_break")

    def __init__(self, queue: Queue | None, parent: QueueNode[Head] | None, *, tie_break: int = 0) -> None:
        #: None at the root only.
        self.queue: Any = queue
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
        #: What decides between equal keys.
        self.tie_break = tie_break
        #: How many; an only child needs no key.
        self.children = 0
        #: Keys of children with something to offer, and some that are out of date.
        self.heap: list[tuple[QueueKey, int, str]] = []
        #: The key that counts, None while there is nothing to offer.
        self.key: QueueKey | None = None
        #: What :attr:`key` was computed from, for whom it helps.
        self.known: tuple[Any, ...] | None = None
        self.leaf: Leaf[Head] | None = None


class QueueTree(Generic[Head]):
    """Takes the next job of the best leaf, level by level from the top; a subclass knows the keys."""

    def __init__(self) -> None:
        self._root: QueueNode[Head] = QueueNode(None, None)
        self._nodes: dict[str, QueueNode[Head]] = {}
        #: Queues whose key may have changed, by depth.
        self._stale: list[dict[str, QueueNode[Head]]] = [{}]

    def queue_key(self, node: QueueNode[Head], head: Head) -> QueueKey:
        """The key of a queue, smallest first; ``head`` is the best job below it.

        Asked for again only after the queue or something below it was touched, or its head changed.
        """
        raise NotImplementedError

    def tie_break(self, queue: Queue) -> int:
        """What decides between queues with equal keys, smallest first; different for each."""
        raise NotImplementedError

    def add(self, queue: Queue, leaf: Leaf[Head]) -> None:
        """Hang a leaf queue into the tree.

        With the queues above it that are not in it yet. Each leaf once; it may be empty, and filled later if
        it is touched then.
        """
        parent = self._root
        for each in reversed(queue.path):
            node = self._nodes.get(each.name)
            if node is None:
                node = self._nodes[each.name] = QueueNode(each, parent, tie_break=self.tie_break(each))
                parent.children += 1
                if node.depth == len(self._stale):
                    self._stale.append({})
            parent = node
        parent.leaf = leaf
        self._stale[parent.depth][queue.name] = parent

    def touch(self, queue: Queue) -> None:
        """What a queue holds or has to offer changed.

        Its key, and those of the queues above it, are made anew before the next job is taken. A queue that
        is not in the tree is ignored.
        """
        node = self._nodes.get(queue.name)
        if node is not None:
            self._stale[node.depth][queue.name] = node

    def take(self) -> tuple[Queue, Head] | None:
        """The next job and its queue; None if there is no more."""
        self._refresh()
        node = self._root
        while node.leaf is None:
            best = self._best(node)
            if best is None:
                return None
            node = best
        queue: Queue = node.queue
        self._stale[node.depth][queue.name] = node
        return queue, node.leaf.pop()

    def rivals(self, queue: Queue) -> list[tuple[QueueNode[Head], tuple[QueueKey, int] | None]]:
        """The way from a leaf queue up, each with the smallest key beside it; None where there is no other.

        A leaf whose keys are all smaller, with what it has to offer next, is taken next. Costs a new key of
        each queue on the way before the next job is taken.
        """
        self._refresh()
        found: list[tuple[QueueNode[Head], tuple[QueueKey, int] | None]] = []
        node = self._nodes[queue.name]
        while (parent := node.parent) is not None:
            node.key = None
            self._stale[node.depth][node.queue.name] = node
            best = self._best(parent)
            found.append((node, None if best is None or best.key is None else (best.key, best.tie_break)))
            node = parent
        return found

    def heads(self, queue: Queue) -> list[Head | None]:
        """What comes next of a queue, and of each above it that is in the tree: their keys go by that."""
        self._refresh()
        nodes = [node for each in queue.path if (node := self._nodes.get(each.name)) is not None]
        return [self._head(node) for node in nodes]

    def _refresh(self) -> None:
        """Give keys anew from the bottom up."""
        levels = self._stale
        for depth in range(len(levels) - 1, 0, -1):
            stale = levels[depth]
            above = levels[depth - 1]
            for name, node in stale.items():
                parent = node.parent
                assert parent is not None
                self._rekey(name, node, parent)
                if depth > 1:
                    above[parent.queue.name] = parent
            stale.clear()

    def _rekey(self, name: str, node: QueueNode[Head], parent: QueueNode[Head]) -> None:
        """Give a queue the key that its best job makes; none where it has nothing to offer."""
        head = self._head(node)
        if head is None:
            node.key = None
            return
        key = _ONLY if parent.children == 1 else self.queue_key(node, head)
        if key != node.key:
            node.key = key
            heapq.heappush(parent.heap, (key, node.tie_break, name))

    def _head(self, node: QueueNode[Head]) -> Head | None:
        """What comes next below a queue."""
        below: QueueNode[Head] | None = node
        while below is not None and below.leaf is None:
            below = self._best(below)
        return below.leaf.head() if below is not None and below.leaf is not None else None

    def _best(self, node: QueueNode[Head]) -> QueueNode[Head] | None:
        """The child with the smallest key; entries of keys that were replaced since are dropped on the way.

        An entry holds the very key of its child, or it is of an earlier time.
        """
        heap = node.heap
        while heap:
            key, _, name = heap[0]
            child = self._nodes[name]
            if child.key is key:
                return child
            heapq.heappop(heap)
        return None


class JobHeap:
    """A leaf: jobs best first, by a key taken when they are pushed."""

    __slots__ = ("_again", "_key", "_next", "_sorted")

    def __init__(self, jobs: Sequence[Job], *, key: KeyOfJob, depth: int | None) -> None:
        self._key = key
        self._sorted = sorted(zip(key.of_many(jobs), [job.key for job in jobs], jobs, strict=True))
        if depth is not None:
            del self._sorted[depth:]
        self._next = 0
        #: Those that were pushed later.
        self._again: list[tuple[JobKey, str, Job]] = []

    def head(self) -> Job | None:
        """The best job."""
        if self._next == len(self._sorted):
            return self._again[0][2] if self._again else None
        best = self._sorted[self._next]
        return self._again[0][2] if self._again and self._again[0] < best else best[2]

    def pop(self) -> Job:
        """Take the best job."""
        again = self._again
        if again and (self._next == len(self._sorted) or again[0] < self._sorted[self._next]):
            return heapq.heappop(again)[2]
        self._next += 1
        return self._sorted[self._next - 1][2]

    def push(self, job: Job) -> None:
        """Let a job compete (again)."""
        heapq.heappush(self._again, (self._key(job), job.key, job))

    def upcoming(self, most: int) -> list[Job]:
        """The best jobs, at most so many; none where some were pushed later."""
        return [] if self._again else [job for _, _, job in self._sorted[self._next : self._next + most]]

    def skip(self, jobs: int) -> None:
        """Take so many of them."""
        self._next += jobs

    def rest(self) -> list[Job]:
        """All jobs, best first."""
        left = self._sorted[self._next :]
        return [job for _, _, job in (heapq.merge(left, sorted(self._again)) if self._again else left)]
