"""How many requests a process sends to its API server."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """At most ``qps`` requests a second over time, and ``burst`` of them at once after a rest."""

    def __init__(self, qps: float, burst: int = 0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1.0 / qps
        self._ahead = (max(burst, 1) - 1) * self._interval
        self._clock = clock
        #: When the next request would be due if all came evenly.
        self._due = clock()

    def turn(self) -> float:
        """Take the next turn; in how many seconds it is."""
        now = self._clock()
        delay = max(0.0, self._due - self._ahead - now)
        self._due = max(self._due, now) + self._interval
        return delay
