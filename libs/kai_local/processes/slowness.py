"""How slow this machine is at this moment: what others wait for takes so many times longer.

Whoever waits for processes of this machine multiplies its patience by that: a wait ends as soon as what it
waits for is there, so this costs nothing where all is well.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Final

#: Nothing is waited for longer than this many times because the machine is slow.
SLOWEST: Final = 5.0
#: Seconds that :func:`_work` takes on the machine by which patience is measured.
_WORK_SECONDS: Final = 0.01


def slowness(*, at_most: float = SLOWEST) -> float:
    """How many times longer work takes here now: the machine's speed, and how many want each of its cores.

    1 on a quick machine that is idle; 2 where four processes wanted two cores during the last minute. Whoever
    does not wait but judges how long something took needs it however large it is: ``at_most=math.inf``.
    """
    return min(at_most, max(1.0, speed()) * max(1.0, os.getloadavg()[0] / cores()))


@functools.cache
def speed() -> float:
    """How many times the usual a piece of work takes here; the best of some."""
    return min(_work() for _ in range(3)) / _WORK_SECONDS


def cores() -> int:
    """How many processes can run here at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work() -> float:
    """In seconds of this thread's own: what others take of the machine is told by its load."""
    began, total = time.thread_time(), 0
    for number in range(200_000):
        total += number * number % 7
    return time.thread_time() - began
