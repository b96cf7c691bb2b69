"""Memory that was freed goes back to the system when a process is at rest.

Three keep it. The C library keeps freed blocks for what is asked for next, and by itself gives back only what
lies above all that is in use. Python keeps objects that refer to each other until it looks for them, which it
does the less often the larger a process has become. And it gives back small objects by the megabyte, when
nothing of a megabyte is in use: a single text that is remembered to save work holds all of it. So a process
stays as large as it ever was, though little of it is used.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from kai.model import remembered

PERIOD_SECONDS: Final = 30.0
#: Of a core: who has more to do soon needs again what he has freed.
REST: Final = 0.5
#: Of the time: looking for garbage takes longer the more there is that is none.
COLLECTING: Final = 0.001

_PAGE_MIB: Final = 4096 / 2**20
_STATM: Final = Path("/proc/self/statm")
#: Looks of the collector at its module after which msgspec forgets the keys that it has read.
_LOOKS: Final = 10

_log = structlog.get_logger(__name__)


def trimmer() -> Callable[[], None] | None:
    """What gives free pages back, in some milliseconds; None where the C library cannot."""
    found = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if found is None:
        return None
    found.argtypes, found.restype = (ctypes.c_size_t,), ctypes.c_int

    def trim() -> None:
        found(0)

    return trim


class Collector:
    """Forgets what only saves work, and collects all garbage. ``clock`` is monotonic.

    What it costs is told by ``cpu_seconds`` of this thread: on a busy machine it takes longer, and is no more
    work; a burst is over there, too, and what it left is to go.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._not_before = 0.0

    def collect(self) -> None:
        """Do so; or what costs nothing, where all of it would take more than its part of the time."""
        forget_attributes()
        if self._clock() < self._not_before:
            return
        began = self._cpu_seconds()
        remembered.forget()
        forget_keys()
        gc.collect()
        self._not_before = self._clock() + (self._cpu_seconds() - began) / COLLECTING


def forget_attributes() -> None:
    """Let Python forget which attributes of classes it found last, in some microseconds.

    It keeps their names. The one by which ``match`` asks a class what ``case Point(x, y)`` means is a text
    that Python 3.11 makes anew for each look, so hundreds of them lie between objects of their moments.
    """
    if sys.version_info >= (3, 13):
        sys._clear_internal_caches()
    else:
        sys._clear_type_cache()


def forget_keys() -> None:
    """Let msgspec forget the keys of the JSON objects that it read last.

    It does so by itself with each tenth collection of all garbage; but none looks at its module any more
    where all that was alive was taken out of garbage collection
    (:func:`~kai.runtime.service.freeze_garbage`).
    """
    for _ in range(_LOOKS):
        gc.get_referents(msgspec._core)


async def trim_at_rest(
    trim: Callable[[], None] | None,
    *,
    collect: Callable[[], None] | None = None,
    cpu_seconds: Callable[[], float] = time.process_time,
) -> None:
    """Look twice a minute, collect and trim if the process had little to do since; until cancelled."""
    steps = [collect or Collector().collect, *([trim] if trim is not None else [])]
    now = asyncio.get_running_loop().time
    looked, used = now(), cpu_seconds()
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        busy = (cpu_seconds() - used) / (now() - looked)
        if busy < REST:
            _give_back(steps)
        looked, used = now(), cpu_seconds()


def _give_back(steps: list[Callable[[], None]]) -> None:
    before, began = resident_mib(), time.perf_counter()
    for step in steps:
        step()
    _log.debug(
        "free memory given back",
        mib_before=before,
        mib=resident_mib(),
        milliseconds=round(1000 * (time.perf_counter() - began), 1),
    )


def resident_mib() -> float:
    """What this process holds of the memory of the machine; 0 where that is not told."""
    try:
        return round(int(_STATM.read_text().split()[1]) * _PAGE_MIB, 1)
    except OSError:
        return 0.0
