"""The API server of a cluster in a box as a process of its own, which knows nothing of us yet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One that serves."""

    folder: Path
    pid: int

    @property
    def kubeconfig(self) -> Path:
        """Credentials of somebody who may do everything."""
        return self.folder / "kubeconfig"


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[ApiServer]:
    """Start one that keeps its files in ``folder``; it ends with the body.

    Raises:
        RuntimeError: it ended instead of serving; its complaint is on our standard error.
    """
    command = [sys.executable, "-m", "kai_local.apiserver", "--dir", str(folder), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline() if server.stdout is not None else ""
            if not line.startswith("serving on"):
                raise RuntimeError(f"no API server: {' '.join(command)} said {line!r}")
            yield ApiServer(folder, server.pid)
        finally:
            server.terminate()
