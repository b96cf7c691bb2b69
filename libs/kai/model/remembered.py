"""What pure functions of texts and numbers remember to save work; nothing depends on it.

Each such memory is bounded and costs little. But what was remembered at different times lies between objects
of those times, and small as it is keeps the memory around it from going back to the system. So whoever finds
that a burst is over has all of it forgotten, and what is needed again is found anew.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar


class _Cached(Protocol):
    def cache_clear(self) -> None: ...


_C = TypeVar("_C", bound=_Cached)
_ALL: Final[list[_Cached]] = []


def forgettable(cached: _C) -> _C:
    """Let :func:`forget` forget what this ``lru_cache`` remembers. To be written above it."""
    _ALL.append(cached)
    return cached


def forget() -> None:
    """Remember no answers any more."""
    for cached in _ALL:
        cached.cache_clear()
