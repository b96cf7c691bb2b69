"""An event loop on which nothing is waited for: when all wait, its time jumps to the next who is due.

``looptime`` has such a loop for single tests; over hours of many services it takes three times as long.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Gives what is there already; asked to wait, it moves the clock on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See :meth:`selectors.BaseSelector.select`.

        Raises:
            RuntimeError: everybody waits for somebody else.
        """
        if found := super().select(0):
            return found
        if timeout is None:
            raise RuntimeError("everybody waits, and nobody for a time")
        self.now += max(timeout, 0.0)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0 and has nothing to do with that of the machine."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds since it was made, as far as anybody waited."""
        return self._clock.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on such a loop."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)
