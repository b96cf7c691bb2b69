"""Numbers, names and times in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMED: Final = 3
_ELLIPSIS: Final = "…"


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], *, most: int = _NAMED, between: str = ", ") -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return between.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(text: str, *, most: int) -> str:
    """At most so many bytes of UTF-8 of a text: of a longer one whole characters, and an ellipsis."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS
