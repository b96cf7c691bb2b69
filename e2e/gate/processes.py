"""Running a command of the gate, and ending it with all that it started when its time is up."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

#: What a command that is cut off may take to clean up; tests take their clusters down.
GRACE_SECONDS = 120.0
#: What the system may take to end what it was told to kill.
KILL_SECONDS = 120.0
#: A ninth of what the others get. At the lowest, a seventieth, two minutes of work took as long as all the
#: others, and the stages after it were left for the end.
LOW = ("nice", "--adjustment=10")
#: So that another run finds the failures of its own when it asks for the last ones.
FORGETS = "-p no:cacheprovider"


#: Knows the cost of what is left running in the background.
_REAPER: Final = Path(__file__).with_name("reaper.py")
#: What is kept of what a command prints, for whoever is to learn at the very end why it failed.
LAST_LINES = 15
#: What is left to be read of a command that has ended is there at once, unless it left somebody behind.
_READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit status, or None if it was cut off; and the last lines that it printed.

    ``work``: seconds of processor time, with that of all that it started and that has ended; 0 where it was
    cut off.
    """

    status: int | None
    last: tuple[str, ...] = ()
    work: float = field(default=0.0, compare=False)


def run(command: Sequence[str], *, seconds: float | None, aside: bool = False) -> Ended:
    """Run a command in a process group of its own, for at most so many seconds.

    It is asked to end as by Ctrl-C, so that it says what it has found so far, and killed after a while.
    ``aside``: at low priority, and what it prints comes at its end, not between other lines. A pytest
    in it leaves no failures behind.
    """
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} {FORGETS if aside else ''}".strip()
    process = subprocess.Popen(
        [sys.executable, str(_REAPER), *(LOW if aside else ()), *command],
        env={**os.environ, "PYTEST_ADDOPTS": options},
        start_new_session=True,
        preexec_fn=_heed_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    kept: deque[bytes] = deque(maxlen=None if aside else LAST_LINES)
    reader = threading.Thread(target=_read, args=(process.stdout, kept, not aside), daemon=True)
    reader.start()
    work = 0.0
    try:
        work = _wait(process, seconds)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        status = None
    finally:
        _end(process)
        reader.join(_READ_SECONDS)
        lines = [line.decode(errors="replace") for line in tuple(kept)]
        if aside:
            sys.stdout.writelines(f"{line}\n" for line in lines)
    return Ended(status, tuple(line.rstrip() for line in lines[-LAST_LINES:]), work)


def _wait(process: subprocess.Popen[bytes], seconds: float | None) -> float:
    """Wait for the end of a process; the seconds of processor time that it took.

    Raises:
        TimeoutExpired: it has not ended by then.
    """
    end = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        if not poll.poll(None if seconds is None else 1000 * seconds):
            raise subprocess.TimeoutExpired(process.args, seconds or 0.0)
    finally:
        os.close(end)
    # Not by Popen, which forgets what the process cost.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _read(output: IO[bytes], kept: deque[bytes], passed_on: bool) -> None:
    with output:
        rest = b""
        # Not line by line: a test run shows its progress within one.
        while some := os.read(output.fileno(), 2**16):
            if passed_on:
                sys.stdout.write(some.decode(errors="replace"))
                sys.stdout.flush()
            *lines, rest = (rest + some).split(b"\n")
            kept.extend(lines)
        if rest:
            kept.append(rest)


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
