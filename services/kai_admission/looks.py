"""Looks at the API server over what somebody sent: few, however much is sent.

Whoever reaches the port of the webhook may send reviews, and whoever may make pods has them sent; what they
name is looked for with the rights of admission, in its place before the API server.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from kai.kube.errors import DeadlineExceeded

#: For a look at an object that a watch does not know (yet), while the API server waits for our answer.
LIVE_READ_SECONDS: Final = 0.3
#: Looks of one kind at once, and how many come to that in a second.
AT_ONCE: Final = 10
PER_SECOND: Final = 1.0
#: How long what was found is told again, where no further look is to be had.
REMEMBERED_SECONDS: Final = 5.0

T = TypeVar("T")


class Looks:
    """Looks that all requests share. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: One for each that is looked for, for as long as somebody waits for it.
        self._locks: WeakValueDictionary[tuple[str, Hashable], asyncio.Lock] = WeakValueDictionary()
        #: By kind: looks that are left, and as of when.
        self._left: dict[str, tuple[float, float]] = {}
        #: What was found, and when it was looked for.
        self._found: dict[tuple[str, Hashable], tuple[float, Any]] = {}

    async def at(self, kind: str, key: Hashable, read: Callable[[], Awaitable[T]]) -> T | None:
        """What ``read`` gives, or gave to another request meanwhile.

        None if that is not to be had soon, or nobody can read it. ``kind`` is one of a few words, each with
        looks of its own; ``key`` says what is read. Whatever else ``read`` raises is raised.
        """
        asked = self._clock()
        lock = self._locks.setdefault((kind, key), asyncio.Lock())
        try:
            async with asyncio.timeout(LIVE_READ_SECONDS), lock:
                found: T | None
                began, found = self._found.get((kind, key), (-math.inf, None))
                if began >= asked:
                    return found
                now = self._clock()
                if not self._take(kind, now):
                    return found if now - began < REMEMBERED_SECONDS else None
                found = await read()
                self._remember(kind, key, now, found)
                return found
        except (DeadlineExceeded, ValueError, TimeoutError):
            return None

    def _take(self, kind: str, now: float) -> bool:
        left, since = self._left.get(kind, (float(AT_ONCE), now))
        left = min(AT_ONCE, left + PER_SECOND * (now - since))
        self._left[kind] = (left - 1 if left >= 1 else left, now)
        return left >= 1

    def _remember(self, kind: str, key: Hashable, now: float, found: Any) -> None:
        for each, (began, _) in list(self._found.items()):
            if now - began >= REMEMBERED_SECONDS:
                del self._found[each]
        self._found[kind, key] = (now, found)
