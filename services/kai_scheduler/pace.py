"""How long the scheduler rests between two cycles."""

from __future__ import annotations

from typing import Final

from kai.model.pauses import doubled

#: The longest rest in busy times, after cycles that decided something and after others.
BUSY_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 0.25


class Pace:
    """Computing takes half of the time at most, and less where one change follows the other.

    What comes after a quiet time is looked at as soon as ever. In busy times each cycle doubles the rest, so
    that pods are decided about together, up to :data:`BUSY_SECONDS`. Where nothing comes of it, as while a
    gang waits for the last of thousands of pods to go, it is up to :data:`QUIET_SECONDS`. ``longest`` bounds
    the rest of cycles that take long. After searches that gave way somebody waits, so the rest is short.
    """

    def __init__(self, *, longest: float) -> None:
        self._longest = longest
        self._ended = 0.0
        self._in_a_row = 0

    def rest(self, *, started: float, ended: float, decided: bool, gave_way: bool = False) -> float:
        """Seconds to rest after a cycle."""
        was_quiet = started - self._ended > 2 * QUIET_SECONDS
        self._in_a_row = 0 if was_quiet else self._in_a_row + 1
        self._ended = ended
        took = ended - started
        if gave_way:
            return BUSY_SECONDS
        rest = doubled(took, self._in_a_row, most=BUSY_SECONDS if decided else QUIET_SECONDS)
        return max(min(took, self._longest), rest)
