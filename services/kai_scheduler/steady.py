"""Unix time that nobody sets."""

from __future__ import annotations

import time
from collections.abc import Callable


def steady(
    clock: Callable[[], float] = time.time, *, monotonic: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """A clock that tells what ``clock`` tells now, and from then on goes by ``monotonic``.

    Whoever waits for something to end must not wait an hour longer because the clock was put back.
    """
    ahead = clock() - monotonic()
    return lambda: ahead + monotonic()
