"""Minimum runtime: how long a job that started is safe from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from kai.config.plugin_table import MinRuntimeArguments, Resolve
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin, VictimPolicy
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.queueing.batches import Batch, by_job
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Reason
from kai.snapshot.core import Member, enough
from kai.snapshot.jobs import running_since
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job, PodSet, Queue
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.times import CLOCK_SKEW_SECONDS, rfc3339

#: Jobs that run and are safe, by key, and until when.
_Spared: TypeAlias = dict[str, tuple[Job, float]]

#: Whether some queue says anything of minimum runtimes.
_SAID: Final = Kept[bool](lent=as_it_is)
#: So many are named, the first to lose their protection first.
_NAMED: Final = 3


def opened(handle: Handle) -> Iterator[Plugin]:
    """It is needed where a queue or the configuration says anything of minimum runtimes."""
    arguments = handle.arguments(MinRuntimeArguments)
    said = (
        arguments.preempt
        or arguments.reclaim
        or _SAID.get(handle.kept, handle.versions[Kind.QUEUE], lambda: any(map(_says, handle.queues)))
    )
    if said:
        yield MinRuntime(handle, arguments)


def _says(queue: Queue) -> bool:
    return bool(queue.preempt_min_runtime or queue.reclaim_min_runtime)


class MinRuntime(VictimPolicy):
    """The ``minruntime`` plugin in one cycle.

    What a job holds above its minimum is never protected, and moving its pods asks for no minimum runtime.
    """

    def __init__(self, handle: Handle, arguments: MinRuntimeArguments) -> None:
        self._now = handle.now
        self._due = handle.due
        self._preempt, self._reclaim = arguments.preempt, arguments.reclaim
        self._by_queue = arguments.resolve_method is Resolve.QUEUE
        #: Seconds by the queues of victim and taker; the latter empty within a queue.
        self._known: dict[tuple[str, str], float] = {}
        #: By job (key), where only its pods know.
        self._running_since: dict[str, float] = {}

    def rules(self, search: VictimSearch) -> VictimRules | None:
        """Jobs that may lose nothing are no victims; of others the minimum must be left."""
        if search.action == "consolidation":
            return None
        spared: _Spared = {}
        taker = search.job.queue if search.action == "reclaim" else None

        def safe(victim: Job) -> bool:
            return self._protects(victim, taker, spared)

        def surplus(victims: Sequence[Batch]) -> Sequence[Batch]:
            if not any(batch.job.elastic for batch in victims):
                return victims
            kept: set[int] = set()
            for batches in by_job(victims).values():
                job = batches[0].job
                if job.elastic and safe(job):
                    kept.update(_core_of(batches, job))
            return [batch for batch in victims if batch.number not in kept] if kept else victims

        def leaves_the_minimum(victims: Sequence[Batch]) -> bool:
            # Others that are safe are no victims.
            elastic = [batch for batch in victims if batch.job.elastic]
            return not elastic or all(
                not safe(batches[0].job) or keeps_core(batches, batches[0].job)
                for batches in by_job(elastic).values()
            )

        return VictimRules(
            accepts=lambda victim: victim.elastic or not safe(victim),
            most_of=surplus,
            allows=leaves_the_minimum,
            why=partial(_explanation, spared),
        )

    def _protects(self, victim: Job, taker: Queue | None, spared: _Spared) -> bool:
        least = 0.0 if victim.unwelcome else self._seconds(victim.queue, taker)
        if not least:
            return False
        start = self._start(victim)
        end = start + least
        if not start or start > self._now + CLOCK_SKEW_SECONDS or self._now >= end:
            return False
        self._due(end)
        spared[victim.key] = (victim, end)
        return True

    def _start(self, victim: Job) -> float:
        """Of what ran before this process did it may stand nowhere: nobody had a minimum runtime then."""
        if victim.last_start:
            return victim.last_start
        if victim.key not in self._running_since:
            self._running_since[victim.key] = running_since(victim)
        return self._running_since[victim.key]

    def _seconds(self, victim: Queue, taker: Queue | None) -> float:
        key = (victim.name, taker.name if taker is not None else "")
        if key not in self._known:
            self._known[key] = self._preempt_of(victim) if taker is None else self._reclaim_of(victim, taker)
        return self._known[key]

    def _preempt_of(self, queue: Queue) -> float:
        return next(
            (each.preempt_min_runtime for each in queue.path if each.preempt_min_runtime is not None),
            self._preempt,
        )

    def _reclaim_of(self, victim: Queue, taker: Queue) -> float:
        """Of the first queue that says any, upwards from the victim's or from where the lines part.

        Lines part below the lowest queue that both have in common, on the victim's side; without any, only
        the top queue of the victim is asked.
        """

        def first(queues: Sequence[Queue]) -> float:
            return next(
                (each.reclaim_min_runtime for each in queues if each.reclaim_min_runtime is not None),
                self._reclaim,
            )

        if self._by_queue:
            return first(victim.path)
        line, other = victim.path[::-1], taker.path[::-1]
        if not line or not other or line[0] is not other[0]:
            return first(line[:1])
        common = 0
        while common + 1 < min(len(line), len(other)) and line[common + 1] is other[common + 1]:
            common += 1
        start = min(common + 1, len(line) - 1)
        return first(line[start::-1])


def _explanation(spared: _Spared, job: Job) -> Unschedulable | None:
    """Who is safe from a job for now, of those that it might else take the place of; None if nobody is."""
    found = sorted(
        (end, victim.key)
        for victim, end in spared.values()
        if victim.queue is not job.queue or victim.priority < job.priority
    )
    if not found:
        return None
    names = [f"{key} until {rfc3339(end)}" for end, key in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    text = f"protected by minimum runtime: {', '.join(names)}{more}"
    return Unschedulable(Reason.MIN_RUNTIME, text)


def _core_of(victims: Sequence[Batch], job: Job) -> list[int]:
    """Numbers of the last of a job's victims, as many as must stay for it to keep its minimum."""
    taken = len(victims)
    while taken and not keeps_core(victims[:taken], job):
        taken -= 1
    return [batch.number for batch in victims[taken:]]


def keeps_core(victims: Sequence[Batch], job: Job) -> bool:
    """Whether a job keeps its minimum everywhere if these victims, all of them its own, are taken.

    A part of it that is not needed beside others may go altogether.
    """
    moved: dict[str, int] = {}
    for batch in victims:
        for task in batch.tasks:
            if task.pod_set is not None:
                name = task.pod_set.name
                moved[name] = moved.get(name, 0) + ACTIVE_ALLOCATED[task.status]

    # Who is leaving counts as allocated no longer, be it by this scenario or from before. Those that it moves
    # still do.
    def left(pod_set: PodSet) -> range:
        return range(pod_set.active_allocated - moved.get(pod_set.name, 0))

    def keeps(member: Member) -> bool:
        if isinstance(member, PodSet):
            return member.name not in moved or enough(member, left)
        return all(map(keeps, member.members)) or enough(member, left)

    return keeps(job.root if job.single is None else job.single)
