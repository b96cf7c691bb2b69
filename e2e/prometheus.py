"""A real Prometheus for tests: Debian's program, fetched once where there is none, and a server that scrapes.

``python -m e2e.prometheus`` fetches it, and says where it is or why it cannot be had. No rights are needed:
the package is unpacked, not installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

import deadlines
from e2e import debian
from kai.prometheus import PrometheusClient, Sample
from kai_local.processes.ports import free_ports

PACKAGE: Final = "prometheus"
_FETCH_SECONDS: Final = 180.0


class PrometheusMissing(Exception):
    """There is no program, and it cannot be fetched; the message says why."""


# --- the programs ---------------------------------------------------------------------------------
def program(name: str = PACKAGE) -> Path:
    """``prometheus`` or ``promtool``: on the PATH, or what an earlier call fetched, or fetched now.

    Raises:
        PrometheusMissing: it cannot be had here.
    """
    if found := shutil.which(name):
        return Path(found)
    try:
        return debian.unpacked(PACKAGE, (PACKAGE,)) / "usr" / "bin" / name
    except debian.Unavailable as error:
        raise PrometheusMissing(str(error)) from error


# --- a server -------------------------------------------------------------------------------------
class Prometheus:
    """One that scrapes what it is told to."""

    def __init__(self, url: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self._targets = folder / "targets.json"
        self._process = process

    def scrape(self, targets: Mapping[str, Sequence[str]], **labels: str) -> None:
        """From now on these: ``host:port`` of processes that serve ``/metrics``, by name of the job.

        All that is scraped gets the labels, and ``pod``: the name of the job with a number.
        """
        listed = [
            {"targets": [address], "labels": {**labels, "job": job, "pod": f"{job}-{number}"}}
            for job, each in targets.items()
            for number, address in enumerate(each)
        ]
        unfinished = self._targets.with_suffix(".new")
        unfinished.write_text(json.dumps(listed))
        unfinished.replace(self._targets)

    async def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """The vector that an expression comes to at a Unix time, or now."""
        async with PrometheusClient.connect(self.url) as client:
            return await client.query(expression, at=at or time.time(), seconds=deadlines.patience())

    async def rules(self) -> list[dict[str, Any]]:
        """All rules, with how their last evaluation went."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v1/rules") as answer:
            groups = (await answer.json())["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    def kill(self) -> None:
        """End it, and let nobody know."""
        self._process.kill()
        self._process.wait()


def backfill(folder: Path, samples: str) -> None:
    """Let a Prometheus that is to run in ``folder`` know samples of the past, in the format of OpenMetrics.

    Raises:
        PrometheusMissing: there is no program.
    """
    (folder / "past.txt").write_text(f"{samples}# EOF\n")
    command = [str(program("promtool")), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run(
        [*command, str(folder / "past.txt"), str(folder / "data")], check=True, timeout=_FETCH_SECONDS
    )


@contextmanager
def running(
    folder: Path,
    *,
    every: str = "1s",
    rules: Mapping[str, Any] | None = None,
    jobs: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Prometheus]:
    """A Prometheus while the block runs; it may take a moment until it is :meth:`Prometheus.ready`.

    Args:
        folder: for its configuration, data and log.
        every: how often it scrapes, and evaluates rules.
        rules: of alerts and recordings, as their file has them.
        jobs: what it scrapes beside what it is told to, as ``scrape_configs`` has them.

    Raises:
        PrometheusMissing: there is no program.
    """
    (port,) = free_ports(1)
    job = {
        "job_name": "targets",
        "file_sd_configs": [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}],
    }
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [job, *jobs],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump(dict(rules or {"groups": []})))
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
        found = Prometheus(f"http://127.0.0.1:{port}", folder, process)
        try:
            yield found
        finally:
            found.kill()


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
