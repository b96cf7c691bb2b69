"""Telling a process of ours from a stranger that got its number later."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process id and when that process began, in the kernel's own words."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a running process, ``None`` if there is none."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started)

    @property
    def alive(self) -> bool:
        """Whether that very process runs; a zombie does not."""
        return _start_of(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if that very process runs, to its whole group if it leads one."""
        if not self.alive:
            return
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(self.pid) == self.pid and number == signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def wait_gone(self, patience: float) -> bool:
        """Wait up to ``patience`` seconds for the end; says whether it came."""
        deadline = time.monotonic() + patience
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _start_of(pid: int) -> str | None:
    if sys.platform != "linux":
        return _portable_start_of(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_boot_id()}:{start_ticks}"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _portable_start_of(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
