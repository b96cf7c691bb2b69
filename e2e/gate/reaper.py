"""``python3 reaper.py COMMAND…``: run a command, and be the parent of all that it leaves behind.

Clusters in a box outlive the command that brings them up, and are ended by another one. So nobody knows
what they cost, unless they get a parent that waits for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36


def main() -> int:
    """The status of the command; who was ended by a signal has that of a shell."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        # They are meant for the command, which says what it has found so far. A handler it does not inherit,
        # as it would a signal that is ignored.
        signal.signal(number, lambda number, frame: None)
    command = subprocess.Popen(sys.argv[1:])
    while True:
        ended, status = os.wait()
        if ended == command.pid:
            break
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass  # they have ended, too
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
