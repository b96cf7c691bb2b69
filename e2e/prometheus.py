"""A real Prometheus for tests: Debian's program, fetched once where there is none, and a server that scrapes.

``python -m e2e.prometheus`` fetches it, and says where it is or why it cannot be had. No rights are needed:
the package is unpacked, not installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import yaml

import deadlines
from kai.prometheus import PrometheusClient, Sample
from kai_local.processes.ports import free_ports

PACKAGE: Final = "prometheus"
_PROGRAM: Final = "usr/bin/prometheus"
_FETCH_SECONDS: Final = 180.0


class PrometheusMissing(Exception):
    """There is no program, and it cannot be fetched; the message says why."""


# --- the program ----------------------------------------------------------------------------------
def program() -> Path:
    """The program: one on the PATH, or what an earlier call fetched, or fetched now.

    Raises:
        PrometheusMissing: it cannot be had here.
    """
    if found := shutil.which(PACKAGE):
        return Path(found)
    place = _cache() / "bin" / PACKAGE
    place.parent.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes; one of them fetches.
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(place, os.X_OK):
            _fetch(place)
    return place


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "kai" / PACKAGE


def _fetch(place: Path) -> None:
    if missing := [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]:
        raise PrometheusMissing(f"there is no prometheus on the PATH, and no {missing[0]} to fetch Debian's")
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        here = Path(folder)
        # First by the lists of packages that the machine has, then by fresh ones of our own.
        own = _own_lists(here)
        if _run(["apt-get", "download", PACKAGE], here) and (
            failure := _run(["apt-get", *own, "update"], here)
            or _run(["apt-get", *own, "download", PACKAGE], here)
        ):
            raise PrometheusMissing(f"apt-get cannot fetch prometheus: {failure}")
        (package,) = here.glob("*.deb")
        if failure := _run(["dpkg-deb", "-x", package.name, "unpacked"], here):
            raise PrometheusMissing(f"the package of prometheus cannot be unpacked: {failure}")
        (here / "unpacked" / _PROGRAM).replace(place)


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


# --- a server -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Prometheus:
    """One that scrapes."""

    url: str

    async def query(self, expression: str, *, at: float) -> list[Sample]:
        """A vector, at a Unix time."""
        async with PrometheusClient.connect(self.url) as client:
            return await client.query(expression, at=at, seconds=deadlines.patience())

    async def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@contextmanager
def scraping(
    targets: Mapping[str, Sequence[str]], *, folder: Path, every: str = "1s"
) -> Iterator[Prometheus]:
    """A Prometheus while the block runs; it may take a moment until it is :meth:`Prometheus.ready`.

    Args:
        targets: ``host:port`` of processes that serve ``/metrics``, by name of the job.
        folder: for its configuration, data and log.
        every: how often it looks.

    Raises:
        PrometheusMissing: there is no program.
    """
    (port,) = free_ports(1)
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(listed)}]}
            for job, listed in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(program()),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()


def main() -> int:
    """Fetch the program."""
    try:
        sys.stdout.write(f"{program()}\n")
    except PrometheusMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
