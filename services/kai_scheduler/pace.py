"""How long the scheduler rests between two cycles."""

from __future__ import annotations

from typing import Final

#: The longest rest after cycles that decided nothing.
QUIET_SECONDS: Final = 0.25


class Pace:
    """Computing takes half of the time at most, and less while nothing comes of it.

    Where thousands of pods go one after the other and somebody waits for the last of them, a cycle for each
    is in vain: each that decides nothing doubles the rest, up to :data:`QUIET_SECONDS`. Once it was quiet for
    longer than that, the next change is looked at as soon as ever. ``longest`` bounds the rest after a cycle
    that decided something.
    """

    def __init__(self, *, longest: float) -> None:
        self._longest = longest
        self._ended = 0.0
        self._in_vain = 0

    def rest(self, *, started: float, ended: float, decided: bool) -> float:
        """Seconds to rest after a cycle."""
        if decided:
            self._in_vain = 0
        elif started - self._ended > 2 * QUIET_SECONDS:
            self._in_vain = 1
        else:
            self._in_vain += 1
        self._ended = ended
        took = ended - started
        doubled = took * 2.0 ** min(self._in_vain, 32)
        return max(min(took, self._longest), min(doubled, QUIET_SECONDS))
