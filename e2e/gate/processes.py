"""Running a command of the gate, and ending it with all that it started when its time is up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

#: What a command that is cut off may take to clean up; tests take their clusters down.
GRACE_SECONDS = 120.0
#: What the system may take to end what it was told to kill.
KILL_SECONDS = 120.0
LOWEST = ("nice", "--adjustment=19")


def run(command: Sequence[str], *, seconds: float | None, aside: bool = False) -> int | None:
    """Run a command in a process group of its own; its exit status, or None if it was cut off.

    It is asked to end as by Ctrl-C, so that it says what it has found so far, and killed after a while.
    ``aside``: at the lowest priority, and what it prints comes at its end, not between other lines.
    """
    with tempfile.TemporaryFile() if aside else contextlib.nullcontext() as output:
        process = subprocess.Popen(
            [*LOWEST, *command] if aside else command,
            start_new_session=True,
            preexec_fn=_heed_interrupts,
            stdout=output,
            stderr=subprocess.STDOUT if aside else None,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
            if output is not None:
                output.seek(0)
                sys.stdout.write(output.read().decode(errors="replace"))


def _heed_interrupts() -> None:
    """A shell has what it runs in the background ignore them, and so would all that comes of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and its group: ``make`` may be gone before what it runs."""
    if process.poll() is not None:
        return
    for number, patience in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if _is_gone(process, patience):
            return


def _is_gone(process: subprocess.Popen[bytes], patience: float) -> bool:
    """Whether nobody of the group is left before patience ends."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        process.poll()
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
