"""A real PostgreSQL for tests: Debian's, fetched once where there is none, and a server on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import deadlines
from e2e import debian
from kai_local.processes.ports import free_ports

#: The server, and the library that it and its tools are linked with.
PACKAGES: Final = ("postgresql-15", "postgresql-client-15", "libpq5")
USER: Final = "kai"
_HOST: Final = "127.0.0.1"
#: Whom root has it run as: one of these is there on Debian.
_USERS: Final = ("postgres", "nobody")


class PostgresqlMissing(Exception):
    """There is no program, and it cannot be fetched; the message says why."""


def programs() -> Path:
    """The folder with ``initdb`` and ``postgres``: one that is installed, or what was fetched.

    Raises:
        PostgresqlMissing: it cannot be had here.
    """
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if installed := sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return installed[-1].parent
    try:
        root = debian.unpacked("postgresql", PACKAGES)
    except debian.Unavailable as error:
        raise PostgresqlMissing(str(error)) from error
    found = next(root.glob("usr/lib/postgresql/*/bin"))
    if not os.getuid() and not all(folder.stat().st_mode & 0o001 for folder in found.parents):
        raise PostgresqlMissing(f"root fetched it to where {' and '.join(_USERS)} do not get: {root}")
    return found


@dataclass(frozen=True, kw_only=True)
class Server:
    """One that runs."""

    programs: Path
    port: int

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://{USER}:unused@{_HOST}:{self.port}/{database}?sslmode=disable"

    def make(self, database: str) -> str:
        """Make an empty database; its address."""
        self.command("createdb", database)
        return self.url(database)

    def command(self, program: str, *arguments: str) -> None:
        """Run one of the programs that ask it."""
        asking = [str(self.programs / program), "-h", _HOST, "-p", str(self.port), "-U", USER, *arguments]
        subprocess.run(asking, check=True, env=_environment(self.programs), timeout=deadlines.patience())


@contextmanager
def running(folder: Path, programs: Path) -> Iterator[Server]:
    """A server while the block runs, that asks nobody for a password; its files are in ``folder``."""
    as_user = _as_user(folder)
    (port,) = free_ports(1)
    ours: dict[str, Any] = {"env": _environment(programs), "cwd": folder, **as_user}
    initdb = [str(programs / "initdb"), "-D", "data", "-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, timeout=deadlines.patience(), **ours)
    # -F: what a test writes need not outlive the machine.
    options = ["-F", "-c", f"listen_addresses={_HOST}", "-c", f"unix_socket_directories={folder}"]
    command = [str(programs / "postgres"), "-D", "data", "-p", str(port), *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, **ours)
    try:
        _wait(programs, port, process, folder / "log")
        yield Server(programs=programs, port=port)
    finally:
        process.send_signal(signal.SIGINT)  # without waiting for those who are connected
        try:
            process.wait(deadlines.patience())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def in_temporary_folder(programs: Path) -> Iterator[Server]:
    """One whose files are where the user that it runs as can reach them."""
    with (
        tempfile.TemporaryDirectory(prefix="kai-postgresql-") as name,
        running(Path(name), programs) as server,
    ):
        yield server


def _wait(programs: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    asking = [str(programs / "pg_isready"), "-q", "-h", _HOST, "-p", str(port)]

    def answers() -> bool:
        if process.poll() is not None:
            raise PostgresqlMissing(f"it has ended: {log.read_text()[-2000:]}")
        return not subprocess.run(asking, check=False, env=_environment(programs)).returncode

    deadlines.until(answers, what="PostgreSQL answers")


def _as_user(folder: Path) -> dict[str, Any]:
    """Who it runs as: it refuses to be root."""
    if os.getuid():
        return {}
    for name in _USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise PostgresqlMissing("it refuses to run as root, and there is no other user for it")


def _environment(programs: Path) -> dict[str, str]:
    """Programs that were fetched find their libraries in the same tree."""
    libraries = [str(path.parent) for path in (programs / "../../../..").resolve().glob("lib/*/libpq.so.5")]
    said = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(libraries)}
    return {name: value for name, value in said.items() if value}
