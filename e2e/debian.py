"""Programs of Debian for tests, fetched once with apt-get: unpacked, without rights, where that will do."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_FETCH_SECONDS: Final = 180.0


class Unavailable(Exception):
    """Packages cannot be fetched; the message says why."""


def kept(name: str) -> Path:
    """A folder for what is kept under this name, outside of any checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "kai" / name


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Where the files of these packages are as a system would have them, kept as ``name``; fetched once.

    Raises:
        Unavailable: they cannot be had here.
    """
    folder = kept(name)
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root"
    # Tests run in several processes; one of them fetches.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _fetch(root, packages)
    return root


def installed(program: str) -> Path:
    """A program on the PATH; where there is none, root installs the package of its name.

    For what does not find its libraries anywhere else than where they belong.

    Raises:
        Unavailable: it cannot be had here.
    """
    if (found := shutil.which(program)) is None:
        install(program)
        found = shutil.which(program)
    if found is None:
        raise Unavailable(f"the package {program} has no program of its name")
    return Path(found)


def install(package: str) -> None:
    """Have root install a package.

    Raises:
        Unavailable: it cannot be had here.
    """
    if shutil.which("apt-get") is None:
        raise Unavailable(f"there is no {package} on the PATH, and no apt-get to install Debian's")
    # Somebody else may be installing something at this moment.
    patient = f"DPkg::Lock::Timeout={_FETCH_SECONDS:g}"
    command = ["apt-get", "install", "-o", patient, "-y", "-q", "--no-install-recommends", package]
    here = Path.cwd()
    if _run(command, here) and (failure := _run(["apt-get", "update"], here) or _run(command, here)):
        raise Unavailable(f"apt-get cannot install {package}: {failure}")


def _fetch(root: Path, packages: Sequence[str]) -> None:
    named = packages[0]
    if missing := [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]:
        raise Unavailable(f"there is no {named} on the PATH, and no {missing[0]} to fetch Debian's")
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        here = Path(folder)
        # First by the lists of packages that the machine has, then by fresh ones of our own.
        own = _own_lists(here)
        if _run(["apt-get", "download", *packages], here) and (
            failure := _run(["apt-get", *own, "update"], here)
            or _run(["apt-get", *own, "download", *packages], here)
        ):
            raise Unavailable(f"apt-get cannot fetch {named}: {failure}")
        for package in sorted(here.glob("*.deb")):
            if failure := _run(["dpkg-deb", "-x", package.name, "unpacked"], here):
                raise Unavailable(f"the package {package.name} cannot be unpacked: {failure}")
        (here / "unpacked").replace(root)


def _own_lists(here: Path) -> list[str]:
    (here / "lists" / "partial").mkdir(parents=True)
    (here / "archives" / "partial").mkdir(parents=True)
    settings = (f"Dir::State::Lists={here / 'lists'}", f"Dir::Cache::Archives={here / 'archives'}")
    return [part for setting in (*settings, "Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=")
            for part in ("-o", setting)]  # fmt: skip


def _run(command: Sequence[str], folder: Path) -> str:
    """The last line that a command said if it failed; empty if it did not."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {_FETCH_SECONDS:g} s"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
