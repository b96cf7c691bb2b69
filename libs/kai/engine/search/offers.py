"""What a node would have to give up for one more pod, kept until something changes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kai.engine.framework.session import Session
from kai.engine.kernel.view import NEVER
from kai.engine.queueing.chunks import tasks_to_evict
from kai.engine.queueing.pools import may_lose
from kai.engine.queueing.victims import Reversed, reversed_key
from kai.engine.search.scenarios import node_of
from kai.model.ids import PodGroupKey
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

#: Pods, priority, hundredths of GPUs, and the order of victims.
Order: TypeAlias = tuple[int, int, int, Reversed]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a job gives up at once, and how much of it is on the node in question."""

    job: Job
    tasks: tuple[Task, ...]
    here: tuple[Task, ...]


def _gpu_centi(tasks: Sequence[Task]) -> int:
    return sum(task.charged.gpu_centi for task in tasks if task.charged is not None)


@dataclass(frozen=True, slots=True)
class Offer:
    """Chunks without which one more pod fits on a node; few, though fewer might do."""

    row: int
    chunks: tuple[Chunk, ...]
    #: How many pods that are, then the order of the chunks: the least is taken first.
    cost: tuple[int, tuple[Order, ...]]


class Offers:
    """What each node would have to give up for one more pod of a class."""

    def __init__(self, session: Session, *, most: int) -> None:
        self._session = session
        self._most = most
        #: By class and row; None where no move helps.
        self._known: dict[TaskClass, dict[int, Offer | None]] = {}
        #: Rows whose offers were forgotten, one after the other.
        self._forgotten: list[int] = []
        #: How much of the log of changed rows was seen.
        self._position = session.nodes.log_end
        #: Where jobs come among victims, and in which version they do.
        self._orders: dict[PodGroupKey, tuple[int, Reversed]] = {}
        #: Jobs that give up nothing (more): the one that is served, and those that it moves.
        self._spared: dict[PodGroupKey, Job] = {}

    def spare(self, job: Job) -> None:
        """Ask no more of a job for now.

        After: offers of all nodes where it holds something or waits are forgotten, and found again without
        it.
        """
        self._spared[job.key] = job
        self._forget(_rows_of(job))

    def spare_nobody(self) -> None:
        """Ask all jobs again; what was forgotten so far is no longer told."""
        for job in self._spared.values():
            self._forget(_rows_of(job))
        self._spared.clear()
        self._forgotten.clear()

    def of(self, cls: TaskClass, row: int) -> Offer | None:
        """What a node would give up; asked right after a refresh.

        None where not even as many chunks as are looked at would do. What is found is kept until something
        changes there. Finding it may try evictions in a statement, which are taken back.
        """
        known = self._known.setdefault(cls, {})
        if row not in known:
            known[row] = self._offer(cls, row)
            # What was tried meanwhile was taken back.
            self._position = self._session.nodes.log_end
        return known[row]

    def stands(self, cls: TaskClass, offer: Offer) -> bool:
        """Whether an offer was not forgotten."""
        return self._known[cls].get(offer.row) is offer

    def refresh(self) -> list[int]:
        """Forget rows that changed, and all where their jobs are; returns what was forgotten so far.

        What a job gives up next follows from all of its pods, so a change on one node may make what its other
        nodes offer another. Costs time by the pods on the nodes that changed.
        """
        table = self._session.nodes
        if self._position < table.log_start:
            self._forget(range(len(table)))
        elif self._position != table.log_end:
            changed = set(table.touched[self._position - table.log_start :])
            jobs = {
                task.job.key: task.job
                for row in changed
                for task in table.nodes[row].tasks.values()
                if task.job is not None
            }
            self._forget(changed.union(*map(_rows_of, jobs.values())))
        self._position = table.log_end
        return self._forgotten

    def check(self) -> None:
        """Assert that every offer that was not forgotten is what would be found now."""
        self.refresh()
        for cls, offers in self._known.items():
            for row, offer in offers.items():
                assert offer == self._offer(cls, row), (cls, row)

    def _forget(self, rows: Iterable[int]) -> None:
        for known in self._known.values():
            for row in rows:
                known.pop(row, None)
        self._forgotten += rows

    def _offer(self, cls: TaskClass, row: int) -> Offer | None:
        """What has to go from a node: the cheapest single chunk that suffices, else the largest ones.

        Of several chunks only the largest by GPUs are tried: all choices among them would be exponentially
        many.
        """
        session = self._session
        chunks = list(self._chunks_on(session.nodes.nodes[row]))
        lack = self._lack(cls, row)
        sufficient = [chunk for chunk in chunks if self._suffice((chunk,), cls, row, lack)]
        if sufficient:
            return self._made(row, min(sufficient, key=self._order))
        chunks.sort(key=lambda chunk: (-_gpu_centi(chunk.here), self._order(chunk)))
        for some in range(2, min(len(chunks), self._most) + 1):
            if self._suffice(chunks[:some], cls, row, lack):
                return self._made(row, *chunks[:some])
        return None

    def _made(self, row: int, *chunks: Chunk) -> Offer:
        pods = sum(len(chunk.tasks) for chunk in chunks)
        return Offer(row, chunks, (pods, tuple(map(self._order, chunks))))

    def _order(self, chunk: Chunk) -> Order:
        """Cheapest first.

        Fewer pods, then the lower priority, then fewer GPUs in use (of all its pods, also those elsewhere),
        then who is the first victim.
        """
        job = chunk.job
        known = self._orders.get(job.key)
        if known is None or known[0] != job.version:
            known = self._orders[job.key] = (job.version, reversed_key(self._session.victim_key(job)))
        return (len(chunk.tasks), job.priority, _gpu_centi(chunk.tasks), known[1])

    def _lack(self, cls: TaskClass, row: int) -> list[tuple[int, int]] | None:
        """What a node lacks for one more pod, by column; None where amounts do not tell."""
        if cls.shared or cls.kind is GpuKind.MIG:
            return None
        idle, releasing = self._session.nodes.cells_idle, self._session.nodes.cells_releasing
        missing = [
            (column, amount - idle[row, column] - releasing[row, column]) for column, amount in cls.items
        ]
        return [each for each in missing if each[1] > 0]

    def _suffice(
        self, chunks: Sequence[Chunk], cls: TaskClass, row: int, lack: list[tuple[int, int]] | None
    ) -> bool:
        """Whether one more pod fits on a node without these."""
        leaving = [task.cls for chunk in chunks for task in chunk.here]
        if lack is not None and not any(each.shared or each.dra_gpus for each in leaving):
            freed: Counter[int] = Counter()
            for each in leaving:
                for column, amount in each.items:
                    freed[column] += amount
            return all(freed[column] >= amount for column, amount in lack)
        statement = self._session.statement()
        for chunk in chunks:
            for task in chunk.tasks:
                statement.evict(task)
        fits = self._session.view(cls).score_of(row) != NEVER
        statement.rollback()
        return fits

    def _chunks_on(self, node: Node) -> Iterator[Chunk]:
        """What the jobs on a node would give up, as far as it is there."""
        found = set(self._spared)
        for task in node.tasks.values():
            job = task.job
            if job is None or job.key in found or not ACTIVE_ALLOCATED[task.status]:
                continue
            if not (may_lose(job) and job.queue.leaf):  # without a queue it would find no place again
                continue
            found.add(job.key)
            tasks = tuple(tasks_to_evict(job)[0])
            here = tuple(each for each in tasks if node_of(each) is node)
            if here:
                yield Chunk(job, tasks, here)


def _rows_of(job: Job) -> set[int]:
    """Rows of the nodes where a job holds something, or waits for it."""
    tasks = (task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values())
    return {node.row for task in tasks for node in (task.node, task.pipelined_node) if node is not None}
