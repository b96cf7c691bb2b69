"""Nested deadlines of searches: action, job, generator; zero means unlimited. And the wish to give way."""

from __future__ import annotations

import math
from collections.abc import Callable

from kai.engine.config import SearchBudgets


class ActionBudget:
    """What an action may spend in one cycle."""

    def __init__(self, budgets: SearchBudgets, action: str, *, clock: Callable[[], float]) -> None:
        """The time of the action called ``action`` begins; ``clock`` is monotonic, in seconds."""
        self._budgets = budgets
        self._clock = clock
        seconds = budgets.of_action(action)
        self._until = clock() + seconds if seconds else math.inf

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return self._clock() >= self._until

    def job(self, *, stretch: float = math.inf, hurry: Callable[[], bool] = lambda: False) -> Deadline:
        """The deadline of one job's search: what is left, at most the job's own, at least its minimum.

        After ``stretch`` seconds, and never before the minimum, it ends as soon as there is a ``hurry``.
        """
        left = max(self._until - self._clock(), 0.0)
        seconds = min(left, self._budgets.job or math.inf)
        return Deadline(
            self._budgets,
            max(seconds, self._budgets.job_min),
            clock=self._clock,
            reduced=left < self._budgets.job,
            stretch=max(stretch, self._budgets.job_min),
            hurry=hurry,
        )


class Deadline:
    """When a job's search, and its present generator, must end."""

    def __init__(
        self,
        budgets: SearchBudgets,
        seconds: float,
        *,
        clock: Callable[[], float],
        reduced: bool,
        stretch: float,
        hurry: Callable[[], bool],
    ) -> None:
        """The search begins now, and has ``seconds`` at most; infinite is no bound.

        Args:
            budgets: those of generators.
            seconds: the whole of it.
            clock: monotonic, in seconds.
            reduced: less than a full job's budget was left.
            stretch: seconds after which it ends if somebody is in a hurry.
            hurry: whether somebody is; asked after ``stretch`` only, and no more once it was.
        """
        self._budgets = budgets
        self._clock = clock
        began = clock()
        self._until, self._yields_from = began + seconds, began + stretch
        self._hurry = hurry
        self._generator_until = math.inf
        #: Less than a full job's budget was left.
        self.reduced = reduced
        #: It ended for somebody who waits.
        self.gave_way = False

    def start_generator(self, name: str) -> None:
        """Give a generator its own budget."""
        seconds = self._budgets.of_generator(name)
        self._generator_until = self._clock() + seconds if seconds else math.inf

    @property
    def passed(self) -> bool:
        """Whether the job's search must end."""
        return self._ends(self._clock())

    @property
    def generator_passed(self) -> bool:
        """Whether the generator must give way."""
        now = self._clock()
        return now >= self._generator_until or self._ends(now)

    def _ends(self, now: float) -> bool:
        if now >= self._until:
            return True
        if now >= self._yields_from and not self.gave_way:
            self.gave_way = self._hurry()
        return self.gave_way
