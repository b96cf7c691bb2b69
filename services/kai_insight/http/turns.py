"""Turns of who asks: of a pool that is there for all nobody has more places than his share."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """So many at a time for each who asks; who wants more waits for himself alone."""

    def __init__(self, most_of_one: int) -> None:
        self._most = most_of_one
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, asker: str) -> asyncio.Semaphore:
        """The turns of one who asks. Forgotten when nobody holds them."""
        return self._turns.setdefault(asker, asyncio.Semaphore(self._most))
