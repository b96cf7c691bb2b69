"""Victims in the order in which they are taken, chunk by chunk.

The order depends only on the state at the start of a search: everything tried in between is taken back. So
one job's search draws each chunk once, however many times it begins anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import neg
from typing import Any, Final, TypeAlias

import numpy as np

from kai.engine.fairness.order import added
from kai.engine.queueing.batches import Batch
from kai.engine.queueing.chunks import tasks_to_evict
from kai.engine.queueing.order import JobKey, KeyOfJob, QueueNode, QueueTree
from kai.engine.queueing.queue_order import QueueKey, QueueOrder
from kai.model.arrays import Ints
from kai.model.decisions import ResourceVector
from kai.model.ids import NOBODY, PodGroupKey, PodUid
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.rows import Job, Queue

#: Whether a job may be a victim.
JobFilter: TypeAlias = Callable[[Job], bool]
Reversed: TypeAlias = tuple[Any, ...]


class _Descending:
    """Text in reversed order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Descending) -> bool:
        return self.text > other.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def reversed_key(key: JobKey) -> Reversed:
    """The key by which victims are taken, smallest first, from that of a job, which ends with its names.

    The last job of a queue is its first victim, so every part is turned around.
    """
    return (*map(neg, key[:-2]), _Descending(key[-2]), _Descending(key[-1]))


@dataclass(slots=True, eq=False)
class _Victim:
    job: Job
    gone: frozenset[PodUid] = NOBODY


class _VictimLeaf:
    """Victims of one queue: the sorted ones, and those that gave a chunk and compete again."""

    __slots__ = ("_accepts", "_again", "_head", "_key", "_next", "_sorted", "taken")

    def __init__(self, victims: Sequence[Job], key: KeyOfJob, accepts: JobFilter | None) -> None:
        self._sorted = victims
        self._next = len(victims)
        self._accepts = accepts
        #: What comes next, until something is taken or comes back.
        self._head: _Victim | None = None
        self._again: list[tuple[Reversed, int, _Victim]] = []
        self._key = key
        #: What the jobs taken so far held: all of it, also where they gave but a chunk, as in the original.
        self.taken: ResourceVector = (0.0, 0.0, 0.0)

    def head(self) -> _Victim | None:
        if self._head is None:
            self._head = self._find()
        return self._head

    def _find(self) -> _Victim | None:
        while self._accepts and self._next and not self._accepts(self._sorted[self._next - 1]):
            self._next -= 1
        if self._again and (
            not self._next or self._again[0][0] < reversed_key(self._key(self._sorted[self._next - 1]))
        ):
            return self._again[0][2]
        return _Victim(self._sorted[self._next - 1]) if self._next else None

    def pop_singles(self, most: int, number: int) -> list[Batch]:
        """Take the next victims, as long as each is a single pod and nobody competes again.

        The first gets ``number``, the others those after it.
        """
        found: list[Batch] = []
        if self._again:
            return found
        jobs, accepts, left, end = self._sorted, self._accepts, self._next, number + most
        for at in range(left - 1, -1, -1):
            if number == end:
                break
            job = jobs[at]
            if accepts is None or accepts(job):
                single = job.single
                if single is None or len(single.tasks) > 1 or not single.active_allocated:
                    break
                found.append(Batch(number, job, (*single.tasks.values(),)))
                number += 1
            left -= 1
        if left != self._next:
            self._next, self._head = left, None
        return found

    def pop(self, *, count: bool = True) -> _Victim:
        victim = self.head()
        assert victim is not None
        self._head = None
        if self._again and self._again[0][2] is victim:
            heapq.heappop(self._again)
        else:
            self._next -= 1
        if not count:
            return victim
        self.taken = added(self.taken, held_by(victim.job, gone=victim.gone))
        return victim

    def push(self, victim: _Victim) -> None:
        self._head = None
        key = reversed_key(self._key(victim.job, victim.gone))
        heapq.heappush(self._again, (key, len(self._again) + len(victim.gone), victim))


def held_by(job: Job, *, gone: Iterable[str] = ()) -> ResourceVector:
    """What a job's pods are charged, without those that are gone (uids): millicores, bytes and devices.

    Costs time by the number of the job's pods.
    """
    without = frozenset(gone)
    cpu_millis = memory_bytes = gpu_centi = 0
    for pod_set in job.pod_sets.values():
        for task in pod_set.tasks.values():
            if task.charged is not None and task.uid not in without:
                cpu_millis += task.charged.cpu_millis
                memory_bytes += task.charged.memory_bytes
                gpu_centi += task.charged.gpu_centi
    return (float(cpu_millis), float(memory_bytes), gpu_centi / GPU_CENTI)


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """All tasks of the batches drawn so far, in order; one element for each."""

    #: Row of the node, -1 for none.
    row: Ints
    batch: Ints
    cls: Ints
    #: What the queue of each is charged.
    gpu_centi: Ints
    #: ``[batches + 1]`` where each batch begins.
    start: Ints


_NOBODY: Final = np.zeros(0, dtype=np.int64)
_NO_TASKS: Final = TaskColumns(
    row=_NOBODY,
    batch=_NOBODY,
    cls=_NOBODY,
    gpu_centi=_NOBODY,
    start=np.zeros(1, dtype=np.int64),
)


class _VictimTree(QueueTree[_Victim]):
    """Queues in the order in which they lose: the last to be served first."""

    def __init__(
        self,
        queue_order: QueueOrder,
        leaves: Mapping[str, _VictimLeaf],
        victims_by_queue: Sequence[tuple[Queue, Sequence[Job]]],
    ) -> None:
        super().__init__()
        self._order = queue_order
        self._leaves = leaves
        for queue, _ in victims_by_queue:
            self.add(queue, leaves[queue.name])

    def queue_key(self, node: QueueNode[_Victim], head: _Victim) -> QueueKey:
        """The key of a queue without its victims so far and the next, in reverse.

        Above leaves too that is what the leaf of the next victim lost, not what its siblings did: as in the
        original.
        """
        victims = added(self._leaves[head.job.queue.name].taken, held_by(head.job, gone=head.gone))
        return tuple(-part for part in self._order.key(node.queue.row, victims=victims))

    def tie_break(self, queue: Queue) -> int:
        """The younger first."""
        return -self._order.age[queue.row]


class VictimSource:
    """Batches of all victims, in order, drawn as far as somebody looks."""

    def __init__(
        self,
        victims_by_queue: Sequence[tuple[Queue, Sequence[Job]]],
        *,
        queue_order: QueueOrder,
        key: KeyOfJob,
        accepts: JobFilter | None,
        gangs: bool,
        together: bool = False,
    ) -> None:
        """Nothing is drawn yet.

        Args:
            victims_by_queue: jobs best first, so the last is the first victim, if it is accepted.
            queue_order: which queue loses next, where there are several.
            key: the order in which ``victims_by_queue`` is, and in which jobs with more to lose come again.
            accepts: who may lose anything, asked once somebody looks that far; None accepts all.
            gangs: whether some victim may hold several pods.
            together: whether they were chosen together, none of them for nothing.
        """
        #: Whether some victim may hold several pods.
        self.gangs = gangs
        #: Whether they were chosen together, none of them for nothing.
        self.together = together
        self.batches: list[Batch] = []
        #: Scheduling classes of the tasks drawn.
        self.classes: dict[int, TaskClass] = {}
        self._columns = _NO_TASKS
        #: Whether somebody is asked about each that is drawn.
        self.asks = accepts is not None
        #: Numbers of jobs, and those of the jobs of batches.
        self._jobs: dict[PodGroupKey, int] = {}
        self._job_of: Ints = _NOBODY
        self._leaves = {queue.name: _VictimLeaf(jobs, key, accepts) for queue, jobs in victims_by_queue}
        self._only = next(iter(self._leaves.values())) if len(self._leaves) == 1 else None
        #: Of a single queue nobody asks for the order of queues.
        self._tree: _VictimTree | None = None
        if self._only is None:
            self._tree = _VictimTree(queue_order, self._leaves, victims_by_queue)

    def get(self, number: int) -> Batch | None:
        """The batch with this number, from 0; None if there are not so many.

        Draws as many as are missing. What was drawn stays as it is, whatever becomes of the pods.
        """
        batches = self.batches
        while number >= len(batches):
            if not self._draw_singles(number + 1 - len(batches)) and not self._draw():
                return None
        return batches[number]

    @property
    def one_queue(self) -> bool:
        """Whether all victims are of one queue."""
        return self._only is not None

    def columns(self) -> TaskColumns:
        """The tasks drawn so far, as arrays of ``[tasks]``, in the order of batches.

        Costs time by the number of those drawn since the last call, and a copy of the rest.
        """
        known = self._columns
        drawn = len(known.start) - 1
        if drawn < len(self.batches):
            new = self.batches[drawn:]
            tasks = [task for batch in new for task in batch.tasks]
            sizes = np.fromiter([len(batch.tasks) for batch in new], np.int64, len(new))
            nodes = [task.pipelined_node or task.node for task in tasks]
            charged = [task.charged for task in tasks]
            classes = [task.cls for task in tasks]
            self.classes.update([(cls.id, cls) for cls in set(classes)])
            self._columns = TaskColumns(
                row=_longer(known.row, [-1 if node is None else node.row for node in nodes]),
                batch=_longer(known.batch, np.repeat(np.arange(drawn, len(self.batches)), sizes)),
                cls=_longer(known.cls, [cls.id for cls in classes]),
                gpu_centi=_longer(known.gpu_centi, [each.gpu_centi if each else 0 for each in charged]),
                start=_longer(known.start, known.start[-1] + np.cumsum(sizes)),
            )
        return self._columns

    def jobs(self) -> Ints:
        """``[batches]`` a number for the job of each batch drawn so far, by first appearance."""
        numbers, known = self._jobs, self._job_of
        new = [numbers.setdefault(batch.job.key, len(numbers)) for batch in self.batches[len(known) :]]
        if new:
            self._job_of = _longer(known, new)
        return self._job_of

    def _draw_singles(self, most: int) -> bool:
        """Draw many at once where the order of queues does not matter."""
        if self._only is None:
            return False
        found = self._only.pop_singles(most, len(self.batches))
        self.batches += found
        return bool(found)

    def _draw(self) -> bool:
        if self._only is not None:
            leaf = self._only
            if leaf.head() is None:
                return False
            victim = leaf.pop(count=False)
        else:
            assert self._tree is not None
            found = self._tree.take()
            if found is None:
                return False
            queue, victim = found
            leaf = self._leaves[queue.name]
        tasks, more = tasks_to_evict(victim.job, without=victim.gone)
        if tasks:
            self.batches.append(Batch(len(self.batches), victim.job, tuple(tasks)))
        if more:
            gone = victim.gone | {task.uid for task in tasks}
            leaf.push(_Victim(victim.job, gone))
        return True


def _longer(known: Ints, more: list[int] | Ints) -> Ints:
    return np.concatenate((known, np.asarray(more, dtype=np.int64)))
