"""The order in which jobs of many queues are served, and in which victims are taken.

A tree of heaps follows the hierarchy of queues. A queue's key depends on what it holds and on its next job,
so it is computed again when either may have changed, and only then.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from kai.engine.fairness.order import NO_RESOURCES, QueueOrder
from kai.engine.fairness.queues import Triple
from kai.engine.tree import tasks_to_allocate
from kai.snapshot.rows import Job, Queue, Task

JobKey: TypeAlias = tuple[int, int, float, str, str]
Head_co = TypeVar("Head_co", covariant=True)


def job_key(job: Job, *, by_priority: bool = True, by_growth: bool = True) -> JobKey:
    """Jobs of one queue, best first: priority, then how far below their minimum, then age, then name."""
    growth = _growth(job) if by_growth else 0
    return (-job.priority if by_priority else 0, growth, job.created, job.name, job.namespace)


def _growth(job: Job) -> int:
    """0 below the minimum somewhere, 1 exactly at it everywhere, 2 above."""
    single = job.single
    if single is not None:
        active, needed = single.active_allocated, single.min_member
        return 0 if active < needed else 1 if active == needed else 2
    above = False
    for pod_set in job.pod_sets.values():
        if pod_set.active_allocated < pod_set.min_member:
            return 0
        above = above or pod_set.active_allocated > pod_set.min_member
    return 2 if above else 1


def request_of(tasks: Sequence[Task], gpu_memory: int) -> Triple:
    """CPU, memory and GPUs that tasks ask of their queue."""
    if len(tasks) == 1:
        only = tasks[0].cls
        return (float(only.cpu), float(only.memory), only.quota_centi(gpu_memory) / 100)
    cpu = memory = centi = 0
    for task in tasks:
        cls = task.cls
        cpu += cls.cpu
        memory += cls.memory
        centi += cls.quota_centi(gpu_memory)
    return (float(cpu), float(memory), centi / 100)


class Leaf(Protocol[Head_co]):
    """The jobs of one queue, in order."""

    def head(self) -> Head_co | None:
        """The next job; None if there is no more."""

    def pop(self) -> Head_co:
        """Take the next job."""


class _Node(Generic[Head_co]):
    __slots__ = ("children", "entry", "heap", "leaf", "parent", "queue")

    def __init__(self, queue: Queue | None, parent: _Node[Head_co] | None) -> None:
        #: None at the root only.
        self.queue: Any = queue
        self.parent = parent
        #: How many; an only child needs no key.
        self.children = 0
        self.heap: list[tuple[tuple[float, ...], int, _Node[Head_co]]] = []
        self.entry: tuple[tuple[float, ...], int, _Node[Head_co]] | None = None
        self.leaf: Leaf[Head_co] | None = None


class QueueTree(Generic[Head_co]):
    """Takes the next job of the best leaf, level by level from the top."""

    def __init__(self, key: Callable[[Queue, Queue, Any], tuple[float, ...]]) -> None:
        """``key(queue, leaf, head)``, smallest first; ``leaf`` holds the best job below ``queue``."""
        self._key = key
        self._root: _Node[Head_co] = _Node(None, None)
        self._nodes: dict[str, _Node[Head_co]] = {}
        self._counter = count()
        self._stale: dict[str, _Node[Head_co]] = {}

    def add(self, queue: Queue, leaf: Leaf[Head_co]) -> None:
        """Hang a leaf queue into the tree."""
        parent = self._root
        for each in reversed(queue.path):
            node = self._nodes.get(each.name)
            if node is None:
                node = self._nodes[each.name] = _Node(each, parent)
                parent.children += 1
            parent = node
        parent.leaf = leaf
        self._stale[queue.name] = parent

    def touch(self, queue: Queue) -> None:
        """What a queue holds or has to offer changed."""
        node = self._nodes.get(queue.name)
        if node is not None:
            self._stale[queue.name] = node

    def pop(self) -> tuple[Queue, Head_co] | None:
        """The next job and its queue; None if there is no more."""
        self._refresh()
        node = self._root
        while node.leaf is None:
            best = self._best(node)
            if best is None:
                return None
            node = best
        queue: Queue = node.queue
        self._stale[queue.name] = node
        return queue, node.leaf.pop()

    def _refresh(self) -> None:
        stale = self._stale
        while stale:
            node: _Node[Head_co] | None = stale.popitem()[1]
            while node is not None and node.parent is not None:
                self._rekey(node, node.parent)
                node = node.parent

    def _rekey(self, node: _Node[Head_co], parent: _Node[Head_co]) -> None:
        below: _Node[Head_co] | None = node
        while below is not None and below.leaf is None:
            below = self._best(below)
        head = below.leaf.head() if below is not None and below.leaf is not None else None
        if head is None:
            node.entry = None
            return
        assert below is not None
        if parent.children == 1:
            key: tuple[float, ...] = ()
        else:
            key = self._key(node.queue, below.queue, head)
        entry = node.entry
        if entry is None or entry[0] != key:
            node.entry = entry = (key, next(self._counter), node)
            heapq.heappush(parent.heap, entry)

    @staticmethod
    def _best(node: _Node[Head_co]) -> _Node[Head_co] | None:
        heap = node.heap
        while heap:
            entry = heap[0]
            if entry[2].entry is entry:
                return entry[2]
            heapq.heappop(heap)
        return None


class JobHeap:
    """A leaf: jobs best first, by a key taken when they are pushed."""

    __slots__ = ("_heap", "_key")

    def __init__(self, jobs: Iterable[Job], key: Callable[[Job], JobKey], depth: int | None) -> None:
        self._key = key
        self._heap = sorted((key(job), job.key, job) for job in jobs)
        if depth is not None:
            del self._heap[depth:]

    def head(self) -> Job | None:
        """The best job."""
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Job:
        """Take the best job."""
        return heapq.heappop(self._heap)[2]

    def push(self, job: Job) -> None:
        """Let a job compete (again)."""
        heapq.heappush(self._heap, (self._key(job), job.key, job))


class PendingJobs:
    """Jobs that want resources, in the order of their queues and among themselves."""

    def __init__(
        self,
        jobs: Iterable[Job],
        queue_order: QueueOrder,
        key: Callable[[Job], JobKey],
        *,
        gpu_memory: int,
        depth: int | None = None,
        simulation: bool = False,
    ) -> None:
        self._order = queue_order
        self._gpu_memory = gpu_memory
        self._job_key = key
        self._simulation = simulation
        self._tree: QueueTree[Job] = QueueTree(self._key)
        self._leaves: dict[str, JobHeap] = {}
        self._keys: dict[str, tuple[int, Triple, tuple[float, ...]]] = {}
        by_queue: dict[str, list[Job]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue.name, []).append(job)
        for members in by_queue.values():
            queue = members[0].queue
            if not queue.leaf:
                continue
            leaf = JobHeap(members, key, depth)
            self._leaves[queue.name] = leaf
            self._tree.add(queue, leaf)

    def _key(self, queue: Queue, leaf: Queue, job: Job) -> tuple[float, ...]:
        del leaf
        tasks = tasks_to_allocate(job, simulation=self._simulation)
        asked = request_of(tasks, self._gpu_memory)
        known = self._keys.get(queue.name)
        if known is not None and known[0] == queue.version and known[1] == asked:
            return known[2]
        key = self._order.key(queue.row, job=asked)
        self._keys[queue.name] = (queue.version, asked, key)
        return key

    def pop(self) -> Job | None:
        """The next job; its queue is ordered anew afterwards."""
        found = self._tree.pop()
        return None if found is None else found[1]

    def push(self, job: Job) -> None:
        """Let a job compete again."""
        self._leaves[job.queue.name].push(job)
        self._tree.touch(job.queue)

    def touch(self, queue: Queue) -> None:
        """What a queue holds changed."""
        self._tree.touch(queue)


__all__ = ["NO_RESOURCES", "JobHeap", "JobKey", "PendingJobs", "QueueTree", "job_key", "request_of"]
