"""What it costs to be looked at: ``python -m e2e.bench.page [--nodes 5000]``.

A cluster of nodes with eight GPUs, of which all are held (:mod:`e2e.bench.large`), is recorded as a scheduler
has its cycles recorded: a base, and cycles in each of which gangs end and others begin. A process of its own
decides them again and serves what comes of it over HTTP, as insight does; who looks, and whom an API server
knows, is here. Measured are the first frame of the map (bytes as they are sent, and seconds from connecting),
the seconds from handing over a cycle to its change on the stream of each of those who look, the CPU of that
process while ten look and nothing happens, and its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import pickle
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog

from deadlines import eventually
from e2e.bench import large
from kai.engine import Engine
from kai.history.addresses import open_database
from kai.history.recordings import Entry
from kai.history.store import open_store
from kai.kube.client import KubeClient
from kai.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from kai.live.waiting import Known
from kai.observe import new_registry
from kai.replay.cycles import take_base, write_cycle
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.state import ClusterState
from kai_insight.checker import Checker
from kai_insight.http.server import HttpServer
from kai_insight.live.live import Live
from kai_insight.metrics import ReplayMetrics
from kai_local.apiserver.serving.server import ApiServer

LOOKING: Final = 10
IDLE_SECONDS: Final = 20.0
CYCLES: Final = 5
#: Gangs of four pods that end and that begin in a cycle.
GANGS: Final = 20
#: A busy scheduler decides about so often.
_BETWEEN_CYCLES_SECONDS: Final = 1.0
_NOBODY: Final = "nobody"


@dataclass(slots=True)
class Report:
    """What was measured, as rows of a table, and what of it is beyond what it may be."""

    rows: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self, name: str, value: float, unit: str, *, most: float | None = None) -> None:
        """A measurement, and what it may be at most."""
        limit = "" if most is None else f"{most:g}"
        self.rows.append(f"| {name} | {value:,.3f} | {unit} | {limit} |")
        if most is not None and value > most:
            self.wrong.append(f"{name}: {value:.3f} {unit}, more than {most:g}")


# --- the recording ---------------------------------------------------------------------------------
def recording(nodes: int, cycles: int) -> Iterator[Entry]:
    """A base, and cycles."""
    state, _ = large.loaded(_all(large.a_cluster(nodes), large.running(nodes)))
    engine = Engine(contained=True)
    engine.run(state, large.NOW)
    yield _entry(take_base(state, engine, now=large.NOW), 0, base=True)
    for number in range(1, cycles + 1):
        now = large.NOW + number
        batch = _changes(state, number)
        take_in(state, batch)
        result = engine.run(state, now)
        record = write_cycle(batch, result, number=number, version=number, now=now, usage={})
        yield _entry(record, number)
    yield _entry(take_base(state, engine, now=now), cycles, base=True)


def _changes(state: ClusterState, number: int) -> Changes:
    """Some gangs are gone, and as many come; their pods have GPUs."""
    batch = Changes()
    for gang in range(GANGS):
        name = f"job-{number * GANGS + gang}"
        for pod in range(large.GANG):
            batch.objects.setdefault(Kind.POD, {})[f"default/{name}-{pod}"] = None
        batch.objects.setdefault(Kind.POD_GROUP, {})[f"default/{name}"] = None
        queue = f"queue-{(number * GANGS + gang) % (large.QUEUES - large.POOR)}"
        for kind, obj in large.a_gang(f"new-{number}-{gang}", queue, 1):
            batch.objects.setdefault(kind, {})[object_key(obj)] = obj
    del state
    return batch


def _entry(data: bytes, number: int, *, base: bool = False) -> Entry:
    return Entry(
        shard="default", epoch=1, number=number, version=number, at=large.NOW + number, base=base, data=data
    )


def _all(*parts: large.Objects) -> large.Objects:
    for part in parts:
        yield from part


# --- the process that is looked at -----------------------------------------------------------------
class Nothing:
    """Of the past nothing is known."""

    def known(self, shard: str) -> Known:
        del shard
        return Known()

    async def runs(self) -> Sequence[Any]:
        return ()

    async def keep_forecast(self, answer: Any, *, at: float) -> dict[str, Any]:
        del answer, at
        return {}

    async def processes(self) -> list[Any]:
        return []

    def forecasts(self) -> None:
        return None

    def store(self) -> None:
        return None


async def serve(folder: Path) -> None:
    """Decide a recording again as it is handed over, line by line, and answer."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with (folder / "recording").open("rb") as file:
        entries: list[Entry] = pickle.load(file)
    database = open_database(f"sqlite:///{folder}/history.db")
    open_store(database)
    registry = new_registry()
    live = Live()
    async with KubeClient.connect(str(folder / "kubeconfig"), user_agent="bench") as client:
        checker = Checker("default", ReplayMetrics(registry), live=live)
        server = HttpServer(
            database,
            client,
            listen="127.0.0.1:0",
            certificates=None,
            registry=registry,
            live=live,
            knowledge=Nothing(),
            answer_pods=100_000,
        )
        serving = asyncio.create_task(server.run())
        await server.started.wait()
        _say(port=server.address[1])
        lines = await _lines()
        while line := (await lines.readline()).strip():
            if line == b"next":
                began = time.time()
                checker.put(entries.pop(0))
                _say(at=began)
            else:
                _say(cpu=time.process_time(), memory=large.memory_mib())
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await checker.close()
    database.close()


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


def _say(**values: float) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


class Looked:
    """The other process."""

    def __init__(self, process: asyncio.subprocess.Process, token: str) -> None:
        self._process = process
        self._token = token
        self.port = 0

    @property
    def headers(self) -> dict[str, str]:
        """As somebody whom the API server knows."""
        return {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "gzip"}

    def url(self, path: str) -> str:
        """Of something below ``/api/v1``."""
        return f"http://127.0.0.1:{self.port}/api/v1/{path}"

    async def told(self) -> dict[str, float]:
        """What it says next."""
        assert self._process.stdout is not None
        found: dict[str, float] = json.loads(await self._process.stdout.readline())
        return found

    async def ask(self, line: str) -> dict[str, float]:
        """What it says to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self.told()


@asynccontextmanager
async def looked_at(folder: Path) -> AsyncIterator[Looked]:
    """It, and an API server that knows somebody."""
    async with ApiServer() as api:
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        async with KubeClient.connect(str(kubeconfig), user_agent="bench") as client:
            with contextlib.suppress(Exception):
                await client.create(NAMESPACES, {"metadata": {"name": "default"}})
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": _NOBODY}}, namespace="default")
            path = f"/api/v1/namespaces/default/serviceaccounts/{_NOBODY}/token"
            made = await client.raw(path, method="POST", body={"spec": {}})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "e2e.bench.page", "--serve", str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        found = Looked(process, made["status"]["token"])
        try:
            found.port = int((await found.told())["port"])
            yield found
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


# --- who looks ---------------------------------------------------------------------------------------
async def first_frame(looked: Looked) -> tuple[float, bytes]:
    """Seconds from connecting to having all of the map, and its bytes as they were sent."""
    began = time.perf_counter()
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(looked.url("live/cluster"), headers=looked.headers) as answer,
    ):
        body = await answer.read()
    assert answer.status == 200, body
    return time.perf_counter() - began, body


async def until_known(looked: Looked) -> float:
    """Seconds until a base has become something to look at."""
    began = time.perf_counter()
    async with aiohttp.ClientSession() as session:

        async def version() -> str:
            async with session.get(looked.url("live"), headers=looked.headers) as answer:
                told: str = (await answer.json())["shards"][0]["version"]
                return told

        await eventually(version, what="there is something to look at")
    return time.perf_counter() - began


class Looking:
    """One who follows the changes, and notes when each came (Unix seconds)."""

    def __init__(self, looked: Looked, version: str) -> None:
        self.came: list[float] = []
        self.begun = asyncio.Event()
        self.task = asyncio.create_task(self._follow(looked, version))

    async def _follow(self, looked: Looked, version: str) -> None:
        limits = aiohttp.ClientTimeout(total=None)
        url, headers = looked.url("live/changes"), looked.headers
        async with (
            aiohttp.ClientSession(timeout=limits, read_bufsize=2**22) as session,
            session.get(url, params={"version": version}, headers=headers) as answer,
        ):
            self.begun.set()
            async for line in answer.content:
                if line.startswith(b"event: "):
                    assert line.strip() == b"event: change", line
                    self.came.append(time.time())

    def has(self, number: int) -> bool:
        """Whether so many changes have come; who looks no more will never have them."""
        assert not self.task.done(), "the stream has ended"
        return len(self.came) >= number

    async def end(self) -> None:
        """Look no longer."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def measure(nodes: int, report: Report, *, idle_seconds: float) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory(prefix="kai-page-") as name:
        folder = Path(name)
        with (folder / "recording").open("wb") as file:
            pickle.dump(list(recording(nodes, CYCLES)), file)
        async with looked_at(folder) as looked:
            await looked.ask("next")
            report.row("a base becomes something to look at", await until_known(looked), "s")
            await looked.ask("next")
            seconds, body = await first_frame(looked)
            frame = json.loads(gzip.decompress(body))
            assert len(frame["nodes"]["name"]) == nodes
            report.row("first frame", len(body) / 1000, "kB", most=100)
            report.row("first frame", seconds, "s", most=1)
            everybody = [Looking(looked, frame["version"]) for _ in range(LOOKING)]
            try:
                await _follow(looked, everybody, report, idle_seconds=idle_seconds)
            finally:
                for each in everybody:
                    await each.end()


async def _follow(
    looked: Looked, everybody: Sequence[Looking], report: Report, *, idle_seconds: float
) -> None:
    for each in everybody:
        await each.begun.wait()
    late: list[float] = []
    for number in range(1, CYCLES):
        began = (await looked.ask("next"))["at"]
        await eventually(lambda: all(each.has(number) for each in everybody), what="all are told")  # noqa: B023
        late.append(max(each.came[number - 1] for each in everybody) - began)
        await asyncio.sleep(_BETWEEN_CYCLES_SECONDS)
    report.row("from a cycle to its change, the slowest of all", max(late), "s", most=1)
    before = await looked.ask("how")
    await asyncio.sleep(idle_seconds)
    after = await looked.ask("how")
    cores = (after["cpu"] - before["cpu"]) / idle_seconds
    report.row(f"{len(everybody)} look, nothing changes", cores, "cores", most=0.1)
    report.row("memory", after["memory"], "MiB", most=600)
    await _explain(looked, report)


async def _explain(looked: Looked, report: Report) -> None:
    """Ask what copies have to be made for, and have another base come while they are kept."""
    query = {"namespace": "default", "name": f"job-{GANGS * (CYCLES + 1)}"}
    for what in ("one is asked why it is where it is, for the first time", "and once more"):
        began = time.perf_counter()
        async with (
            aiohttp.ClientSession() as session,
            session.get(looked.url("live/workload"), params=query, headers=looked.headers) as answer,
        ):
            found = await answer.json()
        assert answer.status == 200, found
        assert found["answer"]["verdict"] == "RUNS", found["answer"]
        report.row(what, time.perf_counter() - began, "s")
    report.row("memory, with the copies for that", (await looked.ask("how"))["memory"], "MiB")
    await looked.ask("next")
    await first_frame(looked)
    report.row("memory, and another base", (await looked.ask("how"))["memory"], "MiB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; status 1 where anything is more than it may be."""
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.page", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return 0
    report = Report()
    pods = options.nodes * large.PODS_A_NODE
    try:
        asyncio.run(measure(options.nodes, report, idle_seconds=options.idle_seconds))
    finally:  # what was measured until something went wrong is worth knowing, too
        sys.stdout.write(f"{options.nodes:,} nodes, {options.nodes * large.GPUS:,} GPUs, {pods:,} pods\n\n")
        sys.stdout.write("| | | | at most |\n|---|---|---|---|\n" + "\n".join(report.rows) + "\n")
    for each in report.wrong:
        sys.stderr.write(f"{each}\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
