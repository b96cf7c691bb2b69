"""Searches that give way to those who came meanwhile, and go on in the next cycle.

What a cycle decides is given out at its end. Searches for victims may take longer than all else together, so
where somebody waits for the end of a cycle, they stop after a while. All jobs that waited when the searches
of an action first stopped make up a *pass* of that action: each has its turn before any has a second one,
over as many cycles as that takes. So nobody whose search takes long, or fails again and again, keeps those
behind him from theirs. Each action has its share of each cycle and passes of its own: whoever may take back
what is his does not wait until all were looked at who might be moved about. Where nobody waits, a cycle is a
whole pass, and nothing of this matters.

Whoever comes while searches are made waits for their end. That he has a place then must not wait for more of
them: a cycle that goes on with a pass and placed somebody leaves its searches to the next, but never two in a
row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kai.config import SEARCHING
from kai.engine.reasons import Unschedulable
from kai.model.ids import PodGroupKey
from kai.model.pauses import doubled
from kai.snapshot.rows import Job

#: What each cycle may spend on searches, whoever waits: as much as on all else, within these bounds.
LEAST_SECONDS: Final = 0.2
MOST_SECONDS: Final = 1.0
#: One job's search while somebody waits: at first, and at most, as it doubles with each time it is stopped.
FIRST_STRETCH_SECONDS: Final = 0.25
LONGEST_STRETCH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a job's search ended that found nothing."""

    #: It was made to its end; else a deadline stopped it.
    failed: bool
    #: Why it found too few victims, where plugins kept some safe; for any job like it.
    why: Callable[[Job], Unschedulable | None] | None = None


class PassUnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """What the next cycle has to know of a pass of one action. Jobs are named by key."""

    #: Whom it comprises.
    comprised: tuple[PodGroupKey, ...]
    #: Who had his turn: whether his search was made to its end, and found nothing.
    failed: dict[PodGroupKey, bool]
    #: How often the search of a job was stopped.
    stopped: dict[PodGroupKey, int]


@dataclass(slots=True)
class _Pass:
    """Of one action. Jobs are named by key."""

    #: Jobs of a pass that was stopped; None where this cycle begins one.
    comprised: frozenset[PodGroupKey] | None = None
    had: dict[PodGroupKey, Turn] = field(default_factory=dict)
    #: What owners were told in this pass, and in the one before while this has not come to them.
    explanations: dict[PodGroupKey, Unschedulable] = field(default_factory=dict)
    explanations_before: dict[PodGroupKey, Unschedulable] = field(default_factory=dict)
    #: How often the search of a job was stopped.
    stopped: dict[PodGroupKey, int] = field(default_factory=dict)
    #: When searches of this cycle should stop, and whether there was one.
    until: float = 0.0
    searched: bool = False
    #: Whether searches of this cycle stopped before their end.
    gave_way: bool = False

    def stretch(self, job: PodGroupKey) -> float:
        """Seconds that the next search of a job may take."""
        return doubled(FIRST_STRETCH_SECONDS, self.stopped.get(job, 0), most=LONGEST_STRETCH_SECONDS)

    def forget(self, gone: Container[PodGroupKey]) -> None:
        """Who is made anew by one of these names has nothing of the former's."""
        if self.comprised is not None:
            self.comprised = frozenset(job for job in self.comprised if job not in gone)
        self.had = {job: turn for job, turn in self.had.items() if job not in gone}
        self.stopped = {job: times for job, times in self.stopped.items() if job not in gone}
        for told in (self.explanations, self.explanations_before):
            for job in [job for job in told if job in gone]:
                del told[job]

    def end(self) -> None:
        """It is over: the next cycle begins another one."""
        self.stopped = {
            job: times
            for job, times in self.stopped.items()
            if (turn := self.had.get(job)) is not None and not turn.failed
        }
        self.comprised, self.had = None, {}
        self.explanations_before, self.explanations = self.explanations, {}


class Turns:
    """Whose search was made in the passes that go on, by action. Jobs are named by key.

    ``clock`` is monotonic, in seconds. What is kept from cycle to cycle only shares time out: without it the
    same is found in one cycle.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._hurry: Callable[[], bool] = _nobody_waits
        self._began = clock()
        self._passes: dict[str, _Pass] = {}
        #: The share of each action in this cycle; None until the first of them searches.
        self._share: float | None = None
        #: Whether somebody had his turn in this cycle.
        self._searched = False
        #: Whether this cycle, and the one before, leave searches to the next.
        self._put_off = self._put_off_before = False

    def begin(self, hurry: Callable[[], bool] | None) -> None:
        """A cycle begins; ``hurry`` says whether somebody waits for its end, None that nobody ever does.

        Before: the cycle before was ended. What is left of passes goes on.
        """
        self._hurry = hurry or _nobody_waits
        self._began, self._share = self._clock(), None
        self._searched = False
        self._put_off_before, self._put_off = self._put_off, False
        for each in self._passes.values():
            each.searched = each.gave_way = False

    def forget(self, gone: Collection[PodGroupKey]) -> None:
        """These jobs are gone; one that has such a key now is another, which came after the passes began."""
        if gone:
            for each in self._passes.values():
                each.forget(gone)

    def end(self) -> None:
        """All actions of a cycle are done; the passes of those that did not give way are over."""
        self._hurry = _nobody_waits  # who was asked knows the whole cycle, which is over
        for each in self._passes.values():
            if not each.gave_way:
                each.end()

    def told(self) -> dict[str, PassUnderWay]:
        """The passes that go on, between two cycles, as plain values for :meth:`tell`."""
        return {
            action: PassUnderWay(
                comprised=tuple(sorted(each.comprised)),
                failed={job: turn.failed for job, turn in each.had.items()},
                stopped=dict(each.stopped),
            )
            for action, each in self._passes.items()
            if each.comprised is not None
        }

    def tell(self, told: Mapping[str, PassUnderWay]) -> None:
        """Let these passes go on. Why somebody's search failed is not told: it is for people only."""
        self._passes = {
            action: _Pass(
                comprised=frozenset(each.comprised),
                had={job: Turn(failed=failed) for job, failed in each.failed.items()},
                stopped=dict(each.stopped),
            )
            for action, each in told.items()
        }

    @property
    def gave_way(self) -> bool:
        """Whether searches of this cycle stopped before their end."""
        return any(each.gave_way for each in self._passes.values())

    def search(self, action: str, *, placed: bool) -> None:
        """Searches of an action begin; the first of a cycle sets how long each may take while somebody waits.

        ``placed``: whether the cycle has given somebody a place by then.
        """
        now, here = self._clock(), self._of(action)
        if self._share is None:
            self._share = min(max(LEAST_SECONDS, now - self._began), MOST_SECONDS) / len(SEARCHING)
            goes_on = any(each.comprised is not None for each in self._passes.values())
            self._put_off = placed and goes_on and not self._put_off_before and self._hurry()
        here.until = now + self._share

    def over(self, action: str, *, job: PodGroupKey) -> bool:
        """Whether searches of an action stop before that of a job: its share is spent, and somebody waits.

        A search that was stopped before may take long, so it begins only where it is the first of its cycle.
        """
        here = self._of(action)
        if self._put_off:
            return True
        if self._searched and job in here.stopped and self.had(action, job=job) is None:
            return self._hurry()
        return here.searched and self._clock() >= here.until and self._hurry()

    def hurry(self) -> bool:
        """Whether somebody waits for the end of this cycle."""
        return self._hurry()

    def give_way(self, action: str, waiting: Iterable[PodGroupKey]) -> None:
        """Searches of an action stop here; ``waiting`` are all jobs that may want one."""
        here = self._of(action)
        here.gave_way = True
        if here.comprised is None:
            here.comprised = frozenset(waiting)

    def partial(self, action: str) -> bool:
        """Whether this cycle is only a part of a pass of an action."""
        return self._of(action).comprised is not None

    def takes_part(self, action: str, *, job: PodGroupKey) -> bool:
        """Whether a job belongs to the pass; one that came later waits for the next."""
        comprised = self._of(action).comprised
        return comprised is None or job in comprised

    def had(self, action: str, *, job: PodGroupKey) -> Turn | None:
        """How the job's turn in this pass ended; None if it is still to come.

        Also None in a cycle that is a whole pass: there each job is met once.
        """
        here = self._of(action)
        return here.had.get(job) if here.comprised is not None else None

    def take(self, action: str, *, job: PodGroupKey, turn: Turn) -> None:
        """The job had its turn, which ended so; one taken before in this pass is forgotten.

        In a pass of several cycles :meth:`had` returns it until the pass is over.
        """
        self._of(action).had[job] = turn

    def explain(self, action: str, *, job: PodGroupKey, why: Unschedulable) -> None:
        """The owner of the job is told ``why``, until the job has its next turn with this action.

        One given earlier in this pass is replaced.
        """
        self._of(action).explanations[job] = why

    def explanations(self, action: str) -> dict[PodGroupKey, Unschedulable]:
        """What owners were told last, by job; of jobs that this pass has not come to, in the one before."""
        here = self._of(action)
        before = {job: why for job, why in here.explanations_before.items() if job not in here.had}
        return before | here.explanations

    def start(self, action: str, *, job: PodGroupKey) -> float:
        """A search begins; returns the seconds that it may take while somebody waits.

        They double each time it is stopped, up to :data:`LONGEST_STRETCH_SECONDS`.
        """
        here = self._of(action)
        self._searched = here.searched = True
        return here.stretch(job)

    def stop(self, action: str, *, job: PodGroupKey) -> bool:
        """A search was stopped in the middle; the next may take longer. True if it may not.

        Nothing is said of its turn: :meth:`take` does.
        """
        here = self._of(action)
        at_most = here.stretch(job) >= LONGEST_STRETCH_SECONDS
        here.stopped[job] = here.stopped.get(job, 0) + 1
        return at_most

    def _of(self, action: str) -> _Pass:
        found = self._passes.get(action)
        if found is None:
            found = self._passes[action] = _Pass()
        return found


def _nobody_waits() -> bool:
    return False
