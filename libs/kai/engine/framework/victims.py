"""A search for victims, as plugins see it, and what they say to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import msgspec

from kai.engine.queueing.batches import Batch, ChunkSizes
from kai.engine.reasons import Unschedulable
from kai.snapshot.rows import Job, Queue, Task


class VictimSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Who needs room, and on which grounds others may have to make it."""

    #: The action that searches: ``consolidation`` moves victims only, ``reclaim`` takes from other queues,
    #: and ``preempt`` from jobs of lower priority in the same queue.
    action: str
    job: Job
    #: Its next chunk: all of these pods are placed, or none.
    tasks: Sequence[Task]
    #: What any job of a queue can lose at once.
    chunks: Callable[[Queue], ChunkSizes]


class VictimRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin says to one search. What is left out costs nothing, and allows everything."""

    #: Whether any job of a queue may lose anything. Asked of queues with jobs before those are looked at.
    of_queue: Callable[[Queue], bool] | None = None
    #: False where it is sure that no victims that the rules allow hold so many hundredths of GPUs together.
    #: Asked before a search in which victims lose their places; it saves the search where there is no hope.
    suffices: Callable[[int], bool] | None = None
    #: False where it is sure that nobody may lose his place, and victims can only be moved. Asked like that.
    takes: Callable[[], bool] | None = None
    #: Whether a job may lose any pod. Asked before anything is evicted, of jobs that the action could take
    #: from, in the order of victims as far as the search looks. The answer must stay while it lasts.
    accepts: Callable[[Job], bool] | None = None
    #: Of victims that could be taken together, in order, those that may be. Asked of each scenario before
    #: anything is evicted, so that one who has to keep something is no reason to spare all others beside him.
    most_of: Callable[[Sequence[Batch]], Sequence[Batch]] | None = None
    #: Whether these victims may be taken together. Asked of each scenario in which the job found its place,
    #: while it is in effect: victims that found another place too are pipelined there, the others are being
    #: released. Everything that is read from the state is as it would be then.
    allows: Callable[[Sequence[Batch]], bool] | None = None
    #: Whether the job's queues deserve what it would take. While they do, jobs alike that take from one queue
    #: after each other are allowed less and less. Asked before anything is evicted; plugins of other packages
    #: are not.
    entitled: Callable[[], bool] | None = None
    #: Whom ``accepts``, ``most_of`` and ``allows`` kept safe, to be told to a job that found no place; None
    #: where that was not the reason. Asked after a search that failed, also of jobs for which no search was
    #: made since they are no easier to place.
    why: Callable[[Job], Unschedulable | None] | None = None


#: Whom rules kept safe from a job.
Why: TypeAlias = Callable[[Job], Unschedulable | None]

#: No plugin has a say.
ANYBODY: Final = VictimRules()


def all_of(rules: Sequence[VictimRules]) -> VictimRules:
    """Rules that hold together; the reasons of all are tried in turn, the first counts."""
    return reduce(_together, rules) if rules else ANYBODY


def _together(first: VictimRules, second: VictimRules) -> VictimRules:
    return VictimRules(
        of_queue=both(first.of_queue, second.of_queue),
        suffices=both(first.suffices, second.suffices),
        takes=_either_way(first.takes, second.takes),
        accepts=both(first.accepts, second.accepts),
        most_of=_in_turn(first.most_of, second.most_of),
        allows=both(first.allows, second.allows),
        entitled=_either_way(first.entitled, second.entitled),
        why=_either(first.why, second.why),
    )


def both(
    first: Callable[[Any], bool] | None, second: Callable[[Any], bool] | None
) -> Callable[[Any], bool] | None:
    """A condition that holds where two do, asked in turn; None stands for one that always does."""
    if first is None or second is None:
        return first or second
    return lambda subject: first(subject) and second(subject)


def _either_way(
    first: Callable[[], bool] | None, second: Callable[[], bool] | None
) -> Callable[[], bool] | None:
    """As :func:`both`, for conditions without a subject."""
    if first is None or second is None:
        return first or second
    return lambda: first() and second()


def _in_turn(
    first: Callable[[Sequence[Batch]], Sequence[Batch]] | None,
    second: Callable[[Sequence[Batch]], Sequence[Batch]] | None,
) -> Callable[[Sequence[Batch]], Sequence[Batch]] | None:
    """What the second leaves of what the first does."""
    if first is None or second is None:
        return first or second
    return lambda victims: second(first(victims))


def _either(first: Why | None, second: Why | None) -> Why | None:
    if first is None or second is None:
        return first or second
    return lambda job: first(job) or second(job)
