"""Numbers, names and times in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMED: Final = 3


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], *, most: int = _NAMED) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
