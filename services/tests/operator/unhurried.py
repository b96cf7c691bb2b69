"""Time for those whom nothing outside the process waits for."""

import asyncio
import selectors
import time

#: How long the loop waits at once, however far off the next deadline is: a pause shows between two looks.
_SLICE_SECONDS = 0.5
#: What a longer time between two looks at the clock counts as.
_PAUSE_SECONDS = 1.0


class _InSlices(selectors.DefaultSelector):
    def select(self, timeout=None):
        return super().select(_SLICE_SECONDS if timeout is None else min(timeout, _SLICE_SECONDS))


class UnhurriedLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while the process gets nothing of a busy machine.

    Where clients and servers share a process, no deadline passes but for what one of them has not done.
    """

    def __init__(self):
        self._now = self._looked = time.monotonic()
        super().__init__(_InSlices())

    def time(self):
        looked = time.monotonic()
        self._now += min(looked - self._looked, _PAUSE_SECONDS)
        self._looked = looked
        return self._now
