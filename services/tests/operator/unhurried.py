"""Time for those whom nothing outside the process waits for."""

import asyncio
import selectors
import time

#: What may pass at once; longer ones are no time at all to whoever is in this process.
_AT_ONCE_SECONDS = 0.5


class _InSlices(selectors.DefaultSelector):
    def select(self, timeout=None):
        return super().select(_AT_ONCE_SECONDS if timeout is None else min(timeout, _AT_ONCE_SECONDS))


class UnhurriedLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while the process gets nothing of a busy machine.

    Where clients and servers share a process, no deadline passes but for what one of them has not done.
    """

    def __init__(self):
        self._now = self._looked = time.monotonic()
        super().__init__(_InSlices())

    def time(self):
        looked = time.monotonic()
        self._now += min(looked - self._looked, 2 * _AT_ONCE_SECONDS)
        self._looked = looked
        return self._now
