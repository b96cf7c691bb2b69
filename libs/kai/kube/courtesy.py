"""Writes that nobody waits for leave an API server that is busy to those who wait: it answers slowly."""

from __future__ import annotations

from typing import Final

#: In durations of the write before, and in seconds at most.
_RESTS: Final = 4.0
_LONGEST_SECONDS: Final = 1.0


def rest(took: float) -> float:
    """How long to do nothing after a write that ``took`` so long; both in seconds."""
    return min(_RESTS * took, _LONGEST_SECONDS)
