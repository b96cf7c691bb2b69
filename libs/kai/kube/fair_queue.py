"""A bounded queue in which those who have much waiting do not make the others wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several owners, who take turns; each owner's come in the order in which they were put.

    ``capacity`` bounds all that waits, ``each`` what waits for one owner. All calls cost constant time.
    """

    def __init__(self, *, capacity: int, each: int) -> None:
        self._capacity = capacity
        self._each = each
        #: Whose turn it is comes first; nobody is here who has nothing.
        self._owners: dict[str, deque[T]] = {}
        self._size = 0
        self._unfinished = 0
        self._filled = asyncio.Event()
        self._finished = asyncio.Event()
        self._finished.set()

    def __len__(self) -> int:
        return self._size

    def put(self, owner: str, item: T) -> bool:
        """Whether there was room for it."""
        items = self._owners.get(owner)
        if self._size >= self._capacity or (items is not None and len(items) >= self._each):
            return False
        if items is None:
            items = self._owners[owner] = deque()
        items.append(item)
        self._size += 1
        self._unfinished += 1
        self._filled.set()
        self._finished.clear()
        return True

    async def get(self) -> T:
        """The next item, as soon as there is one. Tell of each by :meth:`done`."""
        while not self._owners:
            self._filled.clear()
            await self._filled.wait()
        owner = next(iter(self._owners))
        items = self._owners.pop(owner)
        item = items.popleft()
        if items:
            self._owners[owner] = items  # behind the others
        self._size -= 1
        return item

    def done(self) -> None:
        """What was taken has been dealt with."""
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.set()

    async def join(self) -> None:
        """Wait until everything that was put has been dealt with."""
        await self._finished.wait()
