"""Which pods have ended."""

from __future__ import annotations

from typing import Final

_ENDED: Final = frozenset({"Succeeded", "Failed"})


def has_ended(phase: str) -> bool:
    """Whether a pod of this ``status.phase`` has ended for good: it holds nothing, and never will again."""
    return phase in _ENDED
