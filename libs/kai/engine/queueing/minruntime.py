"""How long a job that started is safe from others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from kai.engine.config import SchedulerConfig
from kai.engine.config.plugin_table import MinRuntimeArguments, Resolve
from kai.engine.queueing.victims import Batch
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Reason
from kai.snapshot.rows import Job, Queue
from kai.snapshot.times import rfc3339

#: A job that runs, and until when it is safe.
Spared: TypeAlias = tuple[Job, float]
#: So many are named, the first to lose their protection first.
_NAMED: Final = 3

#: A start that is said to be further in the future is not believed, or it would protect for ever.
_CLOCK_SKEW_SECONDS: Final = 600.0


class MinRuntime:
    """The ``minruntime`` plugin's rules at one moment; off, nothing is protected."""

    def __init__(self, config: SchedulerConfig, now: float) -> None:
        self._on = config.plugin("minruntime") is not None
        self._now = now
        told = config.arguments(MinRuntimeArguments)
        self._preempt, self._reclaim = told.preempt, told.reclaim
        self._by_queue = told.resolve_method is Resolve.QUEUE
        self._known: dict[tuple[str, str], float] = {}
        #: The earliest moment at which a protection that mattered ends.
        self.next_end = float("inf")
        #: Whom it kept safe since somebody began to listen, by key, and until when.
        self.spared: dict[str, Spared] = {}

    def idle(self, queues: Iterable[Queue]) -> bool:
        """Whether nobody is protected from anybody."""
        if not self._on:
            return True
        if self._preempt or self._reclaim:
            return False
        return not any(queue.preempt_min_runtime or queue.reclaim_min_runtime for queue in queues)

    def protects_from_preempt(self, victim: Job) -> bool:
        """Whether a job is safe from jobs of its own queue."""
        return (
            self._on and bool(victim.last_start) and self._protected(victim, self._preempt_of(victim.queue))
        )

    def protects_from_reclaim(self, victim: Job, reclaimer: Queue) -> bool:
        """Whether a job is safe from jobs of another queue."""
        return (
            self._on
            and bool(victim.last_start)
            and self._protected(victim, self._reclaim_of(victim.queue, reclaimer))
        )

    def _protected(self, victim: Job, seconds: float) -> bool:
        if victim.unwelcome or victim.last_start > self._now + _CLOCK_SKEW_SECONDS:
            return False
        end = victim.last_start + seconds
        if self._now >= end:
            return False
        self.next_end = min(self.next_end, end)
        self.spared[victim.key] = (victim, end)
        return True

    def _preempt_of(self, queue: Queue) -> float:
        key = (queue.name, "")
        if key not in self._known:
            self._known[key] = next(
                (each.preempt_min_runtime for each in queue.path if each.preempt_min_runtime is not None),
                self._preempt,
            )
        return self._known[key]

    def _reclaim_of(self, victim: Queue, reclaimer: Queue) -> float:
        key = (victim.name, reclaimer.name)
        if key not in self._known:
            self._known[key] = self._resolve(victim, reclaimer)
        return self._known[key]

    def _resolve(self, victim: Queue, reclaimer: Queue) -> float:
        def first(queues: Sequence[Queue]) -> float:
            return next(
                (each.reclaim_min_runtime for each in queues if each.reclaim_min_runtime is not None),
                self._reclaim,
            )

        if self._by_queue:
            return first(victim.path)
        line, other = victim.path[::-1], reclaimer.path[::-1]
        if not line or not other or line[0] is not other[0]:
            return first(line[:1])
        common = 0
        while common + 1 < min(len(line), len(other)) and line[common + 1] is other[common + 1]:
            common += 1
        start = min(common + 1, len(line) - 1)
        return first(line[start::-1])


def told(spared: Iterable[Spared], job: Job) -> Unschedulable | None:
    """Who is safe from a job for now, of those that it might else take the place of; None if nobody is."""
    found = sorted(
        (end, victim.key)
        for victim, end in spared
        if victim.queue is not job.queue or victim.priority < job.priority
    )
    if not found:
        return None
    names = [f"{key} until {rfc3339(end)}" for end, key in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    text = f"protected by minimum runtime: {', '.join(names)}{more}"
    return Unschedulable(Reason.MIN_RUNTIME, text)


def keeps_core(victims: Sequence[Batch], job: Job) -> bool:
    """Whether a job keeps its minimum everywhere if these victims are taken."""
    taken: dict[str, int] = {}
    for batch in victims:
        if batch.job is job:
            for task in batch.tasks:
                if task.pod_set is not None:
                    taken[task.pod_set.name] = taken.get(task.pod_set.name, 0) + 1
    return all(
        _used_before(job, name) - number >= job.pod_sets[name].min_member for name, number in taken.items()
    )


def _used_before(job: Job, name: str) -> int:
    """Pods that hold resources; victims still do, and those moved are not gone."""
    return job.pod_sets[name].active_used
