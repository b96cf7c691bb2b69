"""Nested deadlines of searches: action, job, generator. Zero means unlimited."""

from __future__ import annotations

import math
from collections.abc import Callable

from kai.engine.config import SearchBudgets


class ActionBudget:
    """What an action may spend in one cycle."""

    def __init__(self, budgets: SearchBudgets, action: str, clock: Callable[[], float]) -> None:
        self._budgets = budgets
        self._clock = clock
        seconds = budgets.of_action(action)
        self._until = clock() + seconds if seconds else math.inf

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return self._clock() >= self._until

    def job(self) -> Deadline:
        """The deadline of one job's search: what is left, at most the job's own, at least its minimum."""
        left = max(self._until - self._clock(), 0.0)
        seconds = min(left, self._budgets.job or math.inf)
        return Deadline(
            self._budgets, max(seconds, self._budgets.job_min), self._clock, reduced=left < self._budgets.job
        )


class Deadline:
    """When a job's search, and its present generator, must end."""

    def __init__(
        self, budgets: SearchBudgets, seconds: float, clock: Callable[[], float], *, reduced: bool
    ) -> None:
        self._budgets = budgets
        self._clock = clock
        self._until = clock() + seconds
        self._generator_until = math.inf
        #: Less than a full job's budget was left.
        self.reduced = reduced

    def start_generator(self, name: str) -> None:
        """Give a generator its own budget."""
        seconds = self._budgets.of_generator(name)
        self._generator_until = self._clock() + seconds if seconds else math.inf

    @property
    def passed(self) -> bool:
        """Whether the job's search must end."""
        return self._clock() >= self._until

    @property
    def generator_passed(self) -> bool:
        """Whether the generator must give way."""
        now = self._clock()
        return now >= self._generator_until or now >= self._until
