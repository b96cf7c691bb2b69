"""Searches that give way to those who came meanwhile, and go on in the next cycle.

What a cycle decides is given out at its end. Searches for victims may take longer than all else together, so
where somebody waits for the end of a cycle, they stop after a while. All jobs that waited when a search first
stopped make up a *pass*: each has its turn in each action before any has a second one, over as many cycles as
that takes. So nobody whose search takes long, or fails again and again, keeps those behind him from theirs.
Where nobody waits, a cycle is a whole pass, and nothing of this matters.

Whoever comes while searches are made waits for their end. That he has a place then must not wait for more of
them: a cycle of a pass that placed somebody leaves its searches to the next, but never two in a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kai.engine.reasons import Unschedulable
from kai.model.ids import PodGroupKey
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


_NONE: Final[dict[PodGroupKey, Turn]] = {}
_SILENCE: Final[dict[PodGroupKey, Unschedulable]] = {}


class Turns:
    """Whose search was made in this pass, by action.

    ``clock`` is monotonic, in seconds. What is kept from cycle to cycle only shares time out: without it the
    same is found in one cycle.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._hurry: Callable[[], bool] = _nobody_waits
        self._began = clock()
        self._until: float | None = None
        #: Jobs of a pass that was stopped; None where this cycle begins one.
        self._members: frozenset[PodGroupKey] | None = None
        self._had: dict[str, dict[PodGroupKey, Turn]] = {}
        #: What owners were told in this pass, and in the one before while this has not come to them.
        self._explanations: dict[str, dict[PodGroupKey, Unschedulable]] = {}
        self._explanations_before: dict[str, dict[PodGroupKey, Unschedulable]] = {}
        self._stopped: dict[tuple[str, PodGroupKey], int] = {}
        #: Whether somebody had his turn in this cycle.
        self._searched = False
        #: Whether this cycle, and the one before, leave searches to the next.
        self._put_off = self._put_off_before = False
        #: Whether searches of this cycle stopped before their end.
        self.gave_way = False

    def begin(self, hurry: Callable[[], bool] | None) -> None:
        """A cycle begins; ``hurry`` says whether somebody waits for its end, None that nobody ever does.

        Before: the cycle before was ended. What is left of its pass goes on.
        """
        self._hurry = hurry or _nobody_waits
        self._began, self._until, self.gave_way = self._clock(), None, False
        self._searched = False
        self._put_off_before, self._put_off = self._put_off, False

    def end(self) -> None:
        """All actions of a cycle are done; if none gave way, the pass is over."""
        self._hurry = _nobody_waits  # who was asked knows the whole cycle, which is over
        if self.gave_way:
            return
        self._stopped = {
            (action, job): times
            for (action, job), times in self._stopped.items()
            if (turn := self._had.get(action, _NONE).get(job)) is not None and not turn.failed
        }
        self._members = None
        self._had.clear()
        self._explanations_before, self._explanations = self._explanations, {}

    def search(self, *, placed: bool) -> None:
        """Searches begin; the first of a cycle sets how long they may take while somebody waits.

        ``placed``: whether the cycle has given somebody a place by then.
        """
        if self._until is None:
            now = self._clock()
            self._until = now + min(max(LEAST_SECONDS, now - self._began), MOST_SECONDS)
            self._put_off = placed and self.partial and not self._put_off_before and self._hurry()

    def over(self, action: str, *, job: PodGroupKey) -> bool:
        """Whether searches stop before that of a job (a key): their share is spent, and somebody waits.

        A search that was stopped before may take long, so it begins only where it is the first of its cycle.
        """
        if self._put_off:
            return True
        if not self._searched or self._until is None:
            return False
        long = (action, job) in self._stopped and self.had(action, job=job) is None
        return (long or self._clock() >= self._until) and self._hurry()

    def hurry(self) -> bool:
        """Whether somebody waits for the end of this cycle."""
        return self._hurry()

    def give_way(self, waiting: Iterable[PodGroupKey]) -> None:
        """Searches stop here; ``waiting`` are all jobs (keys) that may want one."""
        self.gave_way = True
        if self._members is None:
            self._members = frozenset(waiting)

    @property
    def partial(self) -> bool:
        """Whether this cycle is only a part of a pass."""
        return self._members is not None

    def takes_part(self, job: PodGroupKey) -> bool:
        """Whether a job belongs to the pass; one that came later waits for the next."""
        return self._members is None or job in self._members

    def had(self, action: str, *, job: PodGroupKey) -> Turn | None:
        """How the job's turn in this pass ended; None if it is still to come.

        Also None in a cycle that is a whole pass: there each job is met once. Jobs are named by key.
        """
        return self._had.get(action, _NONE).get(job) if self._members is not None else None

    def take(self, action: str, *, job: PodGroupKey, turn: Turn) -> None:
        """The job (a key) had its turn, which ended so; one taken before in this pass is forgotten.

        In a pass of several cycles :meth:`had` returns it until the pass is over.
        """
        self._had.setdefault(action, {})[job] = turn

    def explain(self, action: str, *, job: PodGroupKey, why: Unschedulable) -> None:
        """The owner of the job (a key) is told ``why``, until the job has its next turn with this action.

        One given earlier in this pass is replaced.
        """
        self._explanations.setdefault(action, {})[job] = why

    def explanations(self, action: str) -> dict[PodGroupKey, Unschedulable]:
        """What owners were told last, by job; of jobs that this pass has not come to, in the one before."""
        had = self._had.get(action, _NONE)
        before = {
            job: why for job, why in self._explanations_before.get(action, _SILENCE).items() if job not in had
        }
        return before | self._explanations.get(action, _SILENCE)

    def start(self, action: str, *, job: PodGroupKey) -> float:
        """A search begins; returns the seconds that it may take while somebody waits.

        They double each time it is stopped, up to :data:`LONGEST_STRETCH_SECONDS`.
        """
        self._searched = True
        return self._stretch(action, job)

    def stop(self, action: str, *, job: PodGroupKey) -> bool:
        """A search was stopped in the middle; the next may take longer. True if it may not.

        Nothing is said of its turn: :meth:`take` does.
        """
        at_most = self._stretch(action, job) >= LONGEST_STRETCH_SECONDS
        self._stopped[action, job] = self._stopped.get((action, job), 0) + 1
        return at_most

    def _stretch(self, action: str, job: PodGroupKey) -> float:
        times = self._stopped.get((action, job), 0)
        # 32 is far beyond the longest; a power of thousands would be no float.
        return min(FIRST_STRETCH_SECONDS * 2.0 ** min(times, 32), LONGEST_STRETCH_SECONDS)


def _nobody_waits() -> bool:
    return False
