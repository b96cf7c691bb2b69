"""The cgroups of a cluster: made, and ended with all that runs in them. Of version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kai_local.errors import ClusterError

ROOT: Final = Path("/sys/fs/cgroup")
#: Where the programs themselves run, beside the pods.
_RUNTIME: Final = "runtime"
#: The hierarchy that counts processes: there they are found, whatever has become of their parents.
_COUNTING: Final = "pids"
#: A new cpuset has nothing until it is told, and no process can join it.
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")
_END_SECONDS: Final = 20.0
_LOOK_EVERY: Final = 0.05


def hierarchies(root: Path = ROOT) -> list[Path]:
    """The roots of all hierarchies; with version 2 there is one, and none where they are not mounted."""
    if not root.is_dir():
        return []
    if (root / "cgroup.controllers").exists():
        return [root]
    mounted = (path.resolve() for path in sorted(root.iterdir()) if (path / "cgroup.procs").exists())
    return list(dict.fromkeys(mounted))


def make(name: str, children: list[str], *, root: Path = ROOT) -> None:
    """Make the cgroup ``name`` in each hierarchy, with these and one for the programs themselves below it."""
    for hierarchy in hierarchies(root):
        _hand_down(hierarchy)
        for child in (name, *(f"{name}/{child}" for child in (_RUNTIME, *children))):
            path = hierarchy / child
            path.mkdir(exist_ok=True)
            for file in _CPUSET:
                if (path / file).exists() and not (path / file).read_text().strip():
                    (path / file).write_text((path.parent / file).read_text())
            if child == name:
                _hand_down(path)


def members_file(name: str, *, root: Path = ROOT) -> Path:
    """The file by which a process joins those that belong to the cgroup ``name``."""
    counting = root / _COUNTING if (root / _COUNTING).is_dir() else root
    return counting / name / _RUNTIME / "cgroup.procs"


def remove(name: str, *, root: Path = ROOT, patience: float = _END_SECONDS) -> None:
    """End all that runs in the cgroup ``name``, and remove it from each hierarchy.

    Raises:
        ClusterError: something does not end within ``patience`` seconds.
    """
    found = [path for hierarchy in hierarchies(root) if (path := hierarchy / name).is_dir()]
    deadline = time.monotonic() + patience
    while left := [path for path in found if path.is_dir()]:
        for path in left:
            for process in _processes(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            _remove_empty(path)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes in {left[0]} do not end: {sorted(set(_processes(left[0])))}")
        time.sleep(_LOOK_EVERY)


def _hand_down(path: Path) -> None:
    """Version 2 gives a controller to children only where their parent says so."""
    control = path / "cgroup.subtree_control"
    if control.exists():
        for controller in (path / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                control.write_text(f"+{controller}")


def _processes(path: Path) -> Iterator[int]:
    for file in path.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            yield from map(int, file.read_text().split())


def _remove_empty(path: Path) -> None:
    """The deepest first; one in which something still runs stays."""
    for each in [*sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True), path]:
        with contextlib.suppress(OSError):
            each.rmdir()
