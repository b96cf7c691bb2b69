"""Jobs that want resources, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Final

from kai.engine.queueing.alike import Likeness, likeness
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.queueing.lookahead import Foreseen, look_ahead
from kai.engine.queueing.order import JobHeap, KeyOfJob, QueueNode, QueueTree
from kai.engine.queueing.queue_order import QueueKey, QueueOrder
from kai.engine.queueing.requests import request_of
from kai.snapshot.rows import Job, Queue, Task

#: So many jobs are worth a look ahead; the part of them taken step by step after one that was in vain.
_MANY: Final = 16
_CAUTION: Final = 4


class PendingJobs(QueueTree[Job]):
    """Jobs that want resources, in the order of their queues and among themselves."""

    def __init__(
        self,
        jobs: Iterable[Job],
        queue_order: QueueOrder,
        *,
        key: KeyOfJob,
        gpu_memory_mib: int,
        depth: int | None = None,
        simulation: bool = False,
    ) -> None:
        super().__init__()
        self._order = queue_order
        self._gpu_memory_mib = gpu_memory_mib
        self._simulation = simulation
        self._leaves: dict[str, JobHeap] = {}
        by_queue: dict[str, list[Job]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue.name, []).append(job)
        for members in by_queue.values():
            queue = members[0].queue
            if not queue.leaf:
                continue
            leaf = JobHeap(members, key=key, depth=depth)
            self._leaves[queue.name] = leaf
            self.add(queue, leaf)

    def queue_key(self, node: QueueNode[Job], head: Job) -> QueueKey:
        """The key of a queue with its next job's next chunk."""
        queue: Queue = node.queue
        asked = request_of(
            tasks_to_allocate(head, simulation=self._simulation), gpu_memory_mib=self._gpu_memory_mib
        )
        known = node.known
        if known is not None and known[0] == queue.version and known[1] == asked:
            return known[2]  # type: ignore[no-any-return]
        key = self._order.key(queue.row, job=asked)
        node.known = (queue.version, asked, key)
        return key

    def tie_break(self, queue: Queue) -> int:
        """The older first."""
        return self._order.age[queue.row]

    def pop(self) -> Job | None:
        """The next job; its queue is ordered anew afterwards."""
        found = self.take()
        return None if found is None else found[1]

    def pop_next_of(self, queue: Queue, likes: Container[Likeness]) -> list[tuple[Likeness, Job]]:
        """Take what comes next, as long as it is of a queue and of one of these likenesses.

        Before: the last job was of this queue, and nothing changed since. It is the same as taking them one
        by one: only what the next job of the queue asks for says whether it stays before the others.
        """
        rivals = self.rivals(queue)
        comes_next: dict[Likeness, bool] = {}
        found: list[tuple[Likeness, Job]] = []
        leaf = self._leaves[queue.name]
        while (job := leaf.head()) is not None and (like := likeness(job)) is not None and like in likes:
            first = comes_next.get(like)
            if first is None:
                first = comes_next[like] = self._precedes(job, rivals)
            if not first:
                break
            found.append((like, leaf.pop()))
        return found

    def _precedes(
        self, job: Job, rivals: Iterable[tuple[QueueNode[Job], tuple[QueueKey, int] | None]]
    ) -> bool:
        return all(
            rival is None or (self.queue_key(node, job), node.tie_break) < rival for node, rival in rivals
        )

    def upcoming(self, queue: Queue, most: int) -> list[Job]:
        """The next jobs of a queue, at most so many; perhaps none where some compete again."""
        return self._leaves[queue.name].upcoming(most)

    def comes_next(self, job: Job) -> bool:
        """Whether a job would be taken next if those before it in its queue were gone.

        Before: queues that hold something else than before were touched.
        """
        return self._precedes(job, self.rivals(job.queue))

    def skip(self, queue: Queue, jobs: int) -> None:
        """Take so many of the upcoming jobs of a queue."""
        self._leaves[queue.name].skip(jobs)
        self.touch(queue)

    def push(self, job: Job) -> None:
        """Let a job compete again; its queue had jobs here from the start."""
        self._leaves[job.queue.name].push(job)
        self.touch(job.queue)


class TwoJobs:
    """The same order for two jobs, as in most simulations: keys are needed only where their lines part."""

    def __init__(
        self,
        jobs: tuple[Job, Job],
        queue_order: QueueOrder,
        *,
        key: KeyOfJob,
        gpu_memory_mib: int,
        simulation: bool = False,
    ) -> None:
        self._jobs = jobs
        self._waits = [True, True]
        self._order = queue_order
        self._job_key = key
        self._gpu_memory_mib = gpu_memory_mib
        self._simulation = simulation
        lines = zip(*(reversed(job.queue.path) for job in jobs), strict=False)
        self._parted = next((pair for pair in lines if pair[0] is not pair[1]), None)

    def pop(self) -> Job | None:
        """The next job."""
        waits = self._waits
        if waits[0] and waits[1]:
            number = int(self._key(1) < self._key(0))
        elif waits[0] or waits[1]:
            number = int(waits[1])
        else:
            return None
        waits[number] = False
        return self._jobs[number]

    def push(self, job: Job) -> None:
        """Let a job compete again."""
        self._waits[int(job is self._jobs[1])] = True

    def _key(self, number: int) -> tuple[Any, ...]:
        job = self._jobs[number]
        if self._parted is None:
            return (*self._job_key(job), job.key)
        asked = request_of(
            tasks_to_allocate(job, simulation=self._simulation), gpu_memory_mib=self._gpu_memory_mib
        )
        row = self._parted[number].row
        return (self._order.key(row, job=asked), self._order.age[row])


class LookaheadJobs(PendingJobs):
    """The same jobs in the same order, for somebody who serves them one after the other and mostly succeeds.

    As long as each gets all that it wants, the order is the one foreseen. After a refusal jobs are taken step
    by step, at least a part of those that are left, before the next look ahead.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        queue_order: QueueOrder,
        *,
        key: KeyOfJob,
        gpu_memory_mib: int,
        depth: int | None = None,
    ) -> None:
        super().__init__(jobs, queue_order, key=key, gpu_memory_mib=gpu_memory_mib, depth=depth)
        self._ahead: list[Foreseen] = []
        self._last: Job | None = None
        #: The keys of queues are those from before jobs were taken as foreseen.
        self._behind = False
        self._steps = 0
        self._left = sum(len(leaf.rest()) for leaf in self._leaves.values())

    def pop(self) -> Job | None:
        """The next job; the one before it was either placed as a whole, or is refused."""
        last = self._last
        if last is not None and last.pending:
            self._ahead.clear()
            self._steps = max(self._steps, self._left // _CAUTION)
        elif not self._ahead and self._left >= _MANY and self._steps <= 0:
            leaves = [(self._nodes[name].queue, leaf.rest()) for name, leaf in self._leaves.items()]
            ahead = look_ahead(leaves, order=self._order, gpu_memory_mib=self._gpu_memory_mib)
            if ahead is None:
                self._steps = self._left
            else:
                self._ahead = ahead[::-1]
        self._left -= 1
        if self._ahead:
            foreseen, _ = self._ahead.pop()
            self._leaves[foreseen.queue.name].pop()
            self._behind = True
            job: Job | None = foreseen
        else:
            self._catch_up()
            self._steps -= 1
            job = super().pop()
        self._last = job
        return job

    def _catch_up(self) -> None:
        """Give queues anew the keys that are behind."""
        if self._behind:
            for name in self._leaves:
                self.touch(self._nodes[name].queue)
            self._behind = False

    def following(self, goes_on: Callable[[Job, Task], bool]) -> list[Task]:
        """The only tasks of jobs foreseen right after the last one, up to one that does not go on like this.

        The caller places all of them, and no more is left of their jobs.
        """
        ahead, leaves = self._ahead, self._leaves
        found: list[Task] = []
        while ahead:
            job, task = ahead[-1]
            if task is None or not goes_on(job, task):
                break
            self._last = job
            del ahead[-1]
            leaves[job.queue.name].pop()
            found.append(task)
        self._left -= len(found)
        return found

    def pop_next_of(self, queue: Queue, likes: Container[Likeness]) -> list[tuple[Likeness, Job]]:
        """The same, after a refusal."""
        self._catch_up()
        found = super().pop_next_of(queue, likes)
        self._left -= len(found)
        return found

    def push(self, job: Job) -> None:
        """Let a job compete again."""
        super().push(job)
        self._left += 1
