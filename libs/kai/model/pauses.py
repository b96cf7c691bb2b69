"""Pauses that are twice as long each time."""

from __future__ import annotations

from typing import Final

#: Far beyond every pause. What goes on failing for days gets to powers that are no float any more.
_MOST_TIMES: Final = 32


def doubled(first: float, times: int, *, most: float) -> float:
    """``first``, doubled so many ``times``, but at most ``most``; for any number of times."""
    return min(first * 2.0 ** min(times, _MOST_TIMES), most)
