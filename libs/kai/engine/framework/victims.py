"""A search for victims, as plugins see it, and what they say to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kai.engine.queueing.batches import Batch
from kai.engine.reasons import Unschedulable
from kai.snapshot.rows import Job, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimSearch:
    """Who needs room, and on which grounds others may have to make it."""

    #: The action that searches: ``consolidation`` moves victims only, ``reclaim`` takes from other queues,
    #: and ``preempt`` from jobs of lower priority in the same queue.
    action: str
    job: Job
    #: Its next chunk: all of these pods are placed, or none.
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRules:
    """What a plugin says to one search. What is left out costs nothing, and allows everything."""

    #: Whether a job may lose any pod. Asked before anything is evicted, of jobs that the action could take
    #: from, in the order of victims as far as the search looks. The answer must stay while it lasts.
    accepts: Callable[[Job], bool] | None = None
    #: Whether these victims may be taken together. Asked of each scenario in which the job found its place,
    #: while it is in effect: victims that found another place too are pipelined there, the others are being
    #: released. Everything that is read from the state is as it would be then.
    allows: Callable[[Sequence[Batch]], bool] | None = None
    #: Whom the two above kept safe, to be told to a job that found no place; None where that was not the
    #: reason. Asked after a search that failed, also of jobs for which no search was made since they are
    #: no easier to place.
    why: Callable[[Job], Unschedulable | None] | None = None


#: No plugin has a say.
ANYBODY: Final = VictimRules()


def all_of(rules: Sequence[VictimRules]) -> VictimRules:
    """Rules that hold together; the reasons of all are tried in turn, the first counts."""
    if len(rules) < 2:
        return rules[0] if rules else ANYBODY
    return VictimRules(
        accepts=both([each.accepts for each in rules]),
        allows=both([each.allows for each in rules]),
        why=_first([each.why for each in rules if each.why is not None]),
    )


def both(conditions: Iterable[Callable[[Any], bool] | None]) -> Callable[[Any], bool] | None:
    """Conditions that must all hold, asked in turn; None stands for one that always does."""
    found = [each for each in conditions if each is not None]
    if len(found) < 2:
        return found[0] if found else None
    return lambda subject: all(each(subject) for each in found)


def _first(
    reasons: Sequence[Callable[[Job], Unschedulable | None]],
) -> Callable[[Job], Unschedulable | None] | None:
    if len(reasons) < 2:
        return reasons[0] if reasons else None
    return lambda job: next((why for each in reasons if (why := each(job)) is not None), None)
