"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child runs before its program, so that the kernel signals it when its parent is gone.

    Only Linux can do that; elsewhere what a killed parent has left goes on.
    """
    if sys.platform != "linux":
        return lambda: None
    parent, libc = os.getpid(), ctypes.CDLL(None)  # loaded here: little is safe between fork and exec

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:
            os._exit(1)

    return arrange
