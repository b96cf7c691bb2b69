"""Who may be a victim, by queue and in order, kept between the searches of a cycle.

Only decisions change who holds what (searches are taken back), so a pool is sorted once and then mended where
a decision touched it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from math import gcd

from kai.engine.order import JobKey
from kai.snapshot.rows import Job, Queue


class Pool:
    """Preemptible jobs of one queue that hold resources, best first."""

    __slots__ = ("_grain", "_key", "_keys", "_largest", "_measured", "_of", "gangs", "jobs")

    def __init__(self, queue: Queue, key: Callable[[Job], JobKey]) -> None:
        self._key = key
        found = sorted((key(job), job.key, job) for job in queue.jobs.values() if _may_lose(job))
        self._keys = [(order, name) for order, name, _ in found]
        self.jobs = [job for _, _, job in found]
        #: Where each job stands; made when first one changes.
        self._of: dict[str, tuple[JobKey, str]] | None = None
        #: Some job holds several pods, perhaps on several nodes.
        self.gangs = any(job.active_allocated > 1 for job in self.jobs)
        self._measured = False
        self._grain = self._largest = 0

    def chunks_centi(self) -> tuple[int, int]:
        """Hundredths of GPUs: every chunk is a multiple of the first number, and none exceeds the second."""
        if not self._measured:
            self._measured = True
            for job in self.jobs:
                self._measure(job)
        return self._grain, self._largest

    def _measure(self, job: Job) -> None:
        total = 0
        for pod_set in job.pod_sets.values():
            for task in pod_set.tasks.values():
                if task.charged is not None:
                    centi = task.charged[2]
                    total += centi
                    if not self._grain or centi % self._grain:
                        self._grain = gcd(self._grain, centi)
        self._largest = max(self._largest, total)

    def last(self, most: int) -> list[tuple[JobKey, str]]:
        """Keys of the last jobs, at most so many."""
        return self._keys[-most:]

    def since(self, least: tuple[JobKey, str]) -> list[Job]:
        """Jobs from a key on to the last."""
        return self.jobs[bisect_left(self._keys, least) :]

    def mend(self, job: Job) -> None:
        """A decision changed what a job holds."""
        if self._of is None:
            self._of = {at[1]: at for at in self._keys}
        old = self._of.pop(job.key, None)
        if old is not None:
            place = bisect_left(self._keys, old)
            del self._keys[place], self.jobs[place]
        if _may_lose(job):
            at = (self._key(job), job.key)
            place = bisect_left(self._keys, at)
            insort(self._keys, at)
            self.jobs.insert(place, job)
            self._of[job.key] = at
            self.gangs = self.gangs or job.active_allocated > 1
            if self._measured:
                self._measure(job)


def _may_lose(job: Job) -> bool:
    return job.preemptible and job.active_allocated > 0


class Pools:
    """The pools of all queues, made when first asked for."""

    def __init__(self, key: Callable[[Job], JobKey]) -> None:
        self._key = key
        self._pools: dict[str, Pool] = {}
        #: Jobs that decisions changed since somebody looked, by queue.
        self._changed: dict[str, dict[str, Job]] = {}

    def of(self, queue: Queue) -> Pool:
        """The pool of one queue."""
        pool = self._pools.get(queue.name)
        if pool is None:
            pool = self._pools[queue.name] = Pool(queue, self._key)
        elif changed := self._changed.pop(queue.name, None):
            for job in changed.values():
                pool.mend(job)
        return pool

    @property
    def used(self) -> bool:
        """Whether any was made."""
        return bool(self._pools)

    def mend(self, job: Job) -> None:
        """A decision changed what a job holds; its pool is mended when it is asked for next."""
        name = job.queue.name
        if name in self._pools:
            self._changed.setdefault(name, {})[job.key] = job
