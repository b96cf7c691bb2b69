"""When searches end though they have not found out all: by the clock, to give way, or as they did before.

Budgets nest: that of an action, of a pod group, of one way to look for victims; zero means unlimited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol

from kai.config import SearchBudgets
from kai.engine.queueing.turns import Turns
from kai.model.decisions import Cut, Ended
from kai.model.ids import PodGroupKey


class Deadline(Protocol):
    """When the search for one pod group must end."""

    #: Less than a full job's budget was left when it began.
    reduced: bool

    def start_generator(self, name: str) -> None:
        """A generator begins, which may have a budget of its own."""

    @property
    def passed(self) -> bool:
        """Whether the search must end."""

    @property
    def generator_passed(self) -> bool:
        """Whether the present generator must end."""

    @property
    def gave_way(self) -> bool:
        """Whether it ended for somebody who waits."""

    def cuts(self) -> list[Cut]:
        """What it has put an end to so far."""


class Limits(Protocol):
    """What time leaves of one action's searches in one cycle."""

    def before(self, job: PodGroupKey) -> Ended | None:
        """How the searches ended that were still to come, before that of a job; None: it may begin."""

    def deadline(self, job: PodGroupKey) -> Deadline:
        """The search for a job begins, and with it its time."""


def limits(
    budgets: SearchBudgets,
    turns: Turns,
    action: str,
    *,
    clock: Callable[[], float],
    cuts: Iterable[Cut] | None,
) -> Limits:
    """Those of an action that begins: as in ``cuts``, or else by ``clock`` (monotonic, in seconds)."""
    if cuts is not None:
        return RecordedLimits(cuts, turns, action)
    return ClockedLimits(budgets, turns, action, clock=clock)


# --- by the clock ----------------------------------------------------------------------------------------
class ClockedLimits:
    """Limits by budgets, and by whether somebody waits."""

    def __init__(
        self, budgets: SearchBudgets, turns: Turns, action: str, *, clock: Callable[[], float]
    ) -> None:
        """The time of the action called ``action`` begins; ``clock`` is monotonic, in seconds."""
        self._budgets = budgets
        self._turns = turns
        self._action = action
        self._clock = clock
        seconds = budgets.of_action(action)
        self._until = clock() + seconds if seconds else math.inf

    def before(self, job: PodGroupKey) -> Ended | None:
        """How the searches ended that were still to come, before that of a job; None: it may begin."""
        if self._clock() >= self._until:
            return Ended.ACTION
        return Ended.TURNS if self._turns.over(self._action, job=job) else None

    def deadline(self, job: PodGroupKey) -> ClockedDeadline:
        """What is left for a job: at most its own budget, at least its minimum.

        After its stretch (:meth:`Turns.start`), and never before the minimum, it ends as soon as somebody
        waits.
        """
        left = max(self._until - self._clock(), 0.0)
        seconds = min(left, self._budgets.job or math.inf)
        return ClockedDeadline(
            self._budgets,
            max(seconds, self._budgets.job_min),
            action=self._action,
            job=job,
            clock=self._clock,
            reduced=left < self._budgets.job,
            stretch=max(self._turns.start(self._action, job=job), self._budgets.job_min),
            hurry=self._turns.hurry,
        )


class ClockedDeadline:
    """When a job's search, and its present generator, must end."""

    def __init__(
        self,
        budgets: SearchBudgets,
        seconds: float,
        *,
        action: str,
        job: PodGroupKey,
        clock: Callable[[], float],
        reduced: bool,
        stretch: float,
        hurry: Callable[[], bool],
    ) -> None:
        """The search begins now, and has ``seconds`` at most; infinite is no bound.

        Args:
            budgets: those of generators.
            seconds: the whole of it.
            action: whose search it is.
            job: for whom.
            clock: monotonic, in seconds.
            reduced: less than a full job's budget was left.
            stretch: seconds after which it ends if somebody is in a hurry.
            hurry: whether somebody is; asked after ``stretch`` only, and no more once it was.
        """
        self._budgets = budgets
        self._action, self._job = action, job
        self._clock = clock
        began = clock()
        self._until, self._yields_from = began + seconds, began + stretch
        self._hurry = hurry
        self._generator = ""
        self._generator_until = math.inf
        #: What was put an end to.
        self._ended = False
        self._ended_generators: list[str] = []
        self.reduced = reduced
        self.gave_way = False

    def start_generator(self, name: str) -> None:
        """Give a generator its own budget."""
        seconds = self._budgets.of_generator(name)
        self._generator, self._generator_until = name, self._clock() + seconds if seconds else math.inf

    @property
    def passed(self) -> bool:
        """Whether the job's search must end."""
        return self._ends(self._clock())

    @property
    def generator_passed(self) -> bool:
        """Whether the generator must end."""
        now = self._clock()
        if self._ends(now):
            return True
        if now < self._generator_until:
            return False
        if self._generator not in self._ended_generators:
            self._ended_generators.append(self._generator)
        return True

    def cuts(self) -> list[Cut]:
        """What it has put an end to so far."""
        found = [
            Cut(action=self._action, pod_group=self._job, ended=Ended.GENERATOR, generator=name)
            for name in self._ended_generators
        ]
        if self._ended:
            how = Ended.GAVE_WAY if self.gave_way else Ended.SEARCH
            found.append(Cut(action=self._action, pod_group=self._job, ended=how))
        return found

    def _ends(self, now: float) -> bool:
        if now >= self._until:
            self._ended = True
        elif now >= self._yields_from and not self.gave_way:
            self.gave_way = self._hurry()
        self._ended = self._ended or self.gave_way
        return self._ended


# --- as they were ----------------------------------------------------------------------------------------
class RecordedLimits:
    """Limits as another run of the same cycle met them, whatever the time."""

    def __init__(self, cuts: Iterable[Cut], turns: Turns, action: str) -> None:
        self._turns = turns
        self._action = action
        self._cuts = [cut for cut in cuts if cut.action == action]
        self._last = {
            cut.pod_group: cut.ended for cut in self._cuts if cut.ended in (Ended.ACTION, Ended.TURNS)
        }

    def before(self, job: PodGroupKey) -> Ended | None:
        """How the searches ended that were still to come, before that of a job; None: it may begin."""
        return self._last.get(job)

    def deadline(self, job: PodGroupKey) -> RecordedDeadline:
        """The search for a job begins; it ends at once if it was stopped."""
        self._turns.start(self._action, job=job)
        return RecordedDeadline([cut for cut in self._cuts if cut.pod_group == job])


class RecordedDeadline:
    """A search that was stopped found nothing, so it may as well end before it begins."""

    reduced = False

    def __init__(self, cuts: Iterable[Cut]) -> None:
        self._cuts = [cut for cut in cuts if cut.ended not in (Ended.ACTION, Ended.TURNS)]
        self._ended = {cut.ended for cut in self._cuts}
        self._generators = {cut.generator for cut in self._cuts}
        self._generator = ""

    def start_generator(self, name: str) -> None:
        """A generator begins."""
        self._generator = name

    @property
    def gave_way(self) -> bool:
        """Whether it ended for somebody who waits."""
        return Ended.GAVE_WAY in self._ended

    @property
    def passed(self) -> bool:
        """Whether the search must end."""
        return self.gave_way or Ended.SEARCH in self._ended

    @property
    def generator_passed(self) -> bool:
        """Whether the present generator must end."""
        return self.passed or self._generator in self._generators

    def cuts(self) -> list[Cut]:
        """What it puts an end to."""
        return self._cuts
