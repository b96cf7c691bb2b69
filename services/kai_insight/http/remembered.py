"""What is remembered for a moment: of bounded number, and for a bounded time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Values by key, each for ``seconds``, above 0; of more than ``most`` the oldest are forgotten."""

    def __init__(self, *, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """What was said of a key lately; None if nothing was."""
        found = self._kept.get(key)
        if found is None:
            return None
        said_at, value = found
        if self._clock() - said_at >= self._seconds:
            del self._kept[key]
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Remember what was said just now."""
        now = self._clock()
        self._kept.pop(key, None)
        self._kept[key] = now, value
        # The oldest are in front: what nobody asks for again goes as others come.
        while len(self._kept) > self._most or now - next(iter(self._kept.values()))[0] >= self._seconds:
            self._kept.popitem(last=False)
