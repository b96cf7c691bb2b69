"""Who may be a victim, by queue and in order, kept from search to search and from cycle to cycle.

Within a cycle only decisions change who holds what (searches are taken back), so a pool is sorted once and
then mended where a decision touched it. The next cycle mends it wherever a job is not the one, or in the
state, that was sorted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable
from math import gcd
from typing import TypeAlias

from kai.engine.queueing.batches import ChunkSizes
from kai.engine.queueing.chunks import tasks_to_evict
from kai.engine.queueing.order import JobKey, KeyOfJob
from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Queue, Task

_Entry: TypeAlias = tuple[Job, int, JobKey]


class Pool:
    """Jobs of one queue of which others may take something, best first."""

    __slots__ = (
        "_chunks",
        "_entries",
        "_grain",
        "_key",
        "_keys",
        "_largest",
        "_left",
        "_versions",
        "gangs",
        "jobs",
    )

    def __init__(self, queue: Queue, key: KeyOfJob) -> None:
        self._key = key
        held = possible_victims(queue.jobs.values())
        keys = key.of_many(held)
        # No two are equal, as they end with what a job is called.
        order = sorted(range(len(held)), key=keys.__getitem__)
        self._keys: list[JobKey] = [keys[at] for at in order]
        self.jobs: list[Job] = [held[at] for at in order]
        self._versions = [job.version for job in self.jobs]
        #: Each job as it was sorted, its version then, and where it stands; made when first one changes.
        self._entries: dict[PodGroupKey, _Entry] | None = None
        #: Some job holds several pods, perhaps on several nodes. It may have gone since: then a search takes
        #: no short cut where it could.
        self.gangs = bool([job for job in held if job.active_allocated > 1])
        #: Hundredths of GPUs that some job holds; empty until asked for.
        self._chunks: set[int] = set()
        self._grain = self._largest = 0
        #: How many jobs left or changed since they were measured.
        self._left = 0

    def _known(self) -> dict[PodGroupKey, _Entry]:
        if self._entries is None:
            sorted_so = zip(self.jobs, self._versions, self._keys, strict=True)
            self._entries = {job.key: (job, version, at) for job, version, at in sorted_so}
            self._versions = []
        return self._entries

    def renew(self, queue: Queue, key: KeyOfJob) -> None:
        """Bring the pool up to date with its queue, whatever happened since.

        After: as one made anew, but that :attr:`gangs` and :meth:`chunks` may still count jobs that
        are gone. Costs a comparison for each job, and sorting only for those that came or changed.
        """
        self._key = key
        known, jobs = self._known(), queue.jobs
        for name in [name for name in known if name not in jobs]:
            self._take_out(name)
        fresh = possible_victims([job for name, job in jobs.items() if name not in known])
        changed = [
            jobs[name]
            for name, (job, version, _) in known.items()
            if jobs[name] is not job or job.version != version
        ]
        for job in (*changed, *fresh):
            self.mend(job)

    def chunks(self) -> ChunkSizes:
        """What its jobs can lose at once.

        Jobs that are gone still count, until so many are gone that it pays to measure anew.
        """
        if not self._chunks or self._left > len(self.jobs):
            self._chunks.clear()
            self._grain = self._largest = self._left = 0
            for job in self.jobs:
                self._measure(job)
        return ChunkSizes(grain_centi=self._grain, largest_centi=self._largest)

    def _measure(self, job: Job) -> None:
        single, total = job.single, 0
        if single is not None and len(single.tasks) == 1:
            (task,) = single.tasks.values()
            gpu_centi = task.charged.gpu_centi if task.charged is not None else 0
            if gpu_centi not in self._chunks:
                self._count(gpu_centi)
            return
        # It may give up some pods or all of them, so each counts for the grain, and all for the largest.
        for pod_set in job.pod_sets.values():
            for task in pod_set.tasks.values():
                if task.charged is not None:
                    total += task.charged.gpu_centi
                    self._grain = gcd(self._grain, task.charged.gpu_centi)
        self._count(total)

    def _count(self, gpu_centi: int) -> None:
        self._chunks.add(gpu_centi)
        self._grain = gcd(self._grain, gpu_centi)
        self._largest = max(self._largest, gpu_centi)

    def last(self, most: int) -> list[JobKey]:
        """Keys of the last jobs, at most so many."""
        return self._keys[-most:]

    def since(self, least: JobKey) -> list[Job]:
        """Jobs from a key on to the last.

        A copy, in the order in which they are served: the last is the first victim.
        """
        return self.jobs[bisect_left(self._keys, least) :]

    def mend(self, job: Job) -> None:
        """What a job holds may have changed.

        After: it stands where it belongs, or nowhere if it has nothing to lose. Costs a search in the sorted
        keys and moving those behind it.
        """
        known = self._known()
        self._take_out(job.key)
        if not may_lose(job):
            return
        at = self._key(job)
        position = bisect_left(self._keys, at)
        self._keys.insert(position, at)
        self.jobs.insert(position, job)
        known[job.key] = (job, job.version, at)
        self.gangs = self.gangs or job.active_allocated > 1
        if self._chunks:
            self._measure(job)

    def put_back(self, job: Job) -> None:
        """A job lost something only for a trial, which is over.

        After: as if that had not been, whether the pool was mended meanwhile or not.
        """
        self.mend(job)
        self._left -= 1

    def _take_out(self, name: PodGroupKey) -> None:
        old = self._known().pop(name, None)
        if old is not None:
            position = bisect_left(self._keys, old[2])
            del self._keys[position], self.jobs[position]
            self._left += 1


def may_lose(job: Job) -> bool:
    """Whether a job can be a victim.

    It is preemptible, or has more than its minimum where that is kept, holds something that is not being
    released, and is not set aside. Who may take from it is not asked here.
    """
    if job.preemptible:
        return job.active_allocated > 0 and job.aside is None
    return job.semi_preemptible and job.aside is None and bool(tasks_to_evict(job)[0])


def possible_victims(jobs: Iterable[Job]) -> list[Job]:
    """Those of many jobs that can be victims: :func:`may_lose`, without a call for each."""
    return [
        job
        for job in jobs
        if (job.preemptible and job.active_allocated > 0 and job.aside is None)
        or (job.semi_preemptible and may_lose(job))
    ]


class Pools:
    """The pools of all queues, made when first asked for."""

    def __init__(self, key: KeyOfJob) -> None:
        self._key = key
        self._pools: dict[str, Pool] = {}
        #: Pools that were asked for in this cycle.
        self._current: set[str] = set()
        #: Jobs that decisions changed since somebody looked, by queue.
        self._changed: dict[str, dict[PodGroupKey, Job]] = {}

    def reopen(self, key: KeyOfJob, queues: Container[str]) -> None:
        """Begin a cycle over these queues; the order of jobs is as before."""
        self._key = key
        for name in [name for name in self._pools if name not in queues]:
            del self._pools[name]
        self._current.clear()
        self._changed.clear()

    def of(self, queue: Queue) -> Pool:
        """The pool of one queue.

        Sorted when first asked for in any cycle, brought up to date when first asked for in this one, and
        with what decisions changed since. The same object each time; to be read only.
        """
        pool = self._pools.get(queue.name)
        if pool is None:
            pool = self._pools[queue.name] = Pool(queue, self._key)
            self._current.add(queue.name)
        elif queue.name not in self._current:
            pool.renew(queue, self._key)
            self._current.add(queue.name)
        elif changed := self._changed.pop(queue.name, None):
            for job in changed.values():
                pool.mend(job)
        return pool

    @property
    def used(self) -> bool:
        """Whether any was asked for in this cycle."""
        return bool(self._current)

    def mend(self, tasks: Iterable[Task]) -> None:
        """Decisions changed what jobs of tasks hold; their pools are mended when asked for next."""
        last: Queue | None = None
        changed: dict[PodGroupKey, Job] | None = None
        for task in tasks:
            job = task.job
            if job is None:
                continue
            queue = job.queue
            if queue is not last:
                last = queue
                known = queue.name in self._current
                changed = self._changed.setdefault(queue.name, {}) if known else None
            if changed is not None:
                changed[job.key] = job

    def put_back(self, tasks: Iterable[Task]) -> None:
        """Tasks of jobs that have no other were tried as victims, and are where they were.

        Before: nothing was decided about them. After: their pools are as if they had not been mended.
        """
        for task in tasks:
            job = task.job
            if job is not None and job.queue.name in self._current:
                self._changed.get(job.queue.name, {}).pop(job.key, None)
                self._pools[job.queue.name].put_back(job)
