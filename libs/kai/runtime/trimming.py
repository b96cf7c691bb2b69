"""Memory that was freed goes back to the system when a process is at rest.

The C library keeps freed blocks for what is asked for next, and by itself gives back only what lies
above all that is in use: one small block on top of a burst of large objects holds all of it. So a
process stays as large as it ever was, though little of it is used.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

PERIOD_SECONDS: Final = 30.0
#: Of a core: who has more to do soon needs again what he has freed.
REST: Final = 0.5

_PAGE_MIB: Final = 4096 / 2**20
_STATM: Final = Path("/proc/self/statm")

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


async def trim_at_rest(
    trim: Callable[[], None] | None, *, cpu_seconds: Callable[[], float] = time.process_time
) -> None:
    """Look twice a minute, and trim if the process had little to do since; does so until cancelled."""
    if trim is None:
        return
    now = asyncio.get_running_loop().time
    looked, used = now(), cpu_seconds()
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        busy = (cpu_seconds() - used) / (now() - looked)
        if busy < REST:
            _trim(trim)
        looked, used = now(), cpu_seconds()


def _trim(trim: Callable[[], None]) -> None:
    before, began = resident_mib(), time.perf_counter()
    trim()
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
