"""Time stamps as Kubernetes writes them, from a clock that tests can replace."""

import time
from collections.abc import Callable
from datetime import UTC, datetime


class Clock:
    """Seconds since the epoch and their text forms; the text of a whole second is made once."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self._made = (-1, "")

    def stamp(self, offset: float = 0.0) -> str:
        """``2026-01-02T03:04:05Z``, ``offset`` seconds from now."""
        return self.text(self.now() + offset)

    def text(self, time: float) -> str:
        """A moment, in seconds since the epoch, as a time stamp."""
        second = int(time)
        made = self._made
        if second != made[0]:
            made = self._made = (second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        return made[1]

    def micro_stamp(self) -> str:
        """``2026-01-02T03:04:05.678901Z``, now."""
        return datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(stamp: str) -> float:
    """The seconds since the epoch of a time stamp; 0.0 where it is not one."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
