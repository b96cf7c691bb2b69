"""Requests to end, which count from the first moment of a process on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Final, NoReturn

#: Of a terminal, of others, and of a terminal that is closed.
_REQUESTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def become(command: list[str]) -> NoReturn:
    """Be the program ``command`` from now on. A request waits until that program :func:`heeds` it.

    Else it would meet the imports of the program, and end them with a traceback.
    """
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS)
    os.execv(command[0], command)  # noqa: S606


def heeds(request: Callable[[signal.Signals], None]) -> None:
    """Call ``request``, in the loop, for each request to end, also for one that has come already."""
    for number in _REQUESTS:
        asyncio.get_running_loop().add_signal_handler(number, request, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)
