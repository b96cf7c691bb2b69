"""What a cluster's processes spend while something happens: CPU, memory, and requests to the API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from e2e.metrics import scrape
from kai_local.box.state import ClusterFiles
from kai_local.processes.records import ProcessRecord

LOOK_SECONDS = 0.5
#: Everything that is not a service of ours: the control plane, the nodes, and who started them.
SURROUNDINGS = frozenset(
    {
        *("supervisor", "fork-server", "node-agent", "pod-fork-server"),
        *("apiserver", "etcd", "controllers", "kwok", "devices", "machinery", "redis"),
    }
)
#: Not counted: held open or renewed at a steady pace, whatever the load.
_STEADY_VERBS, _STEADY_RESOURCES = frozenset({"watch"}), frozenset({"leases"})

#: service, verb, resource
Request = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process spent. Memory is the largest resident size that was seen."""

    process: str
    cpu_seconds: float
    peak_mib: float

    @property
    def ours(self) -> bool:
        """Whether it is one of our services."""
        return self.process not in SURROUNDINGS


@dataclass(slots=True)
class Reading:
    """What was spent in between; filled in when the metered block ends."""

    usage: tuple[Usage, ...] = ()
    #: Largest sum of the resident sizes of all our services, MiB.
    services_peak_mib: float = 0.0
    #: The same with pages that several hold, as of one library, divided among them: what the machine is short
    #: of. 0 where the system does not tell.
    services_peak_proportional_mib: float = 0.0
    requests: Counter[Request] = field(default_factory=Counter)

    @property
    def services_cpu_seconds(self) -> float:
        """CPU seconds of all our services."""
        return sum(one.cpu_seconds for one in self.usage if one.ours)

    @property
    def surroundings_cpu_seconds(self) -> float:
        """CPU seconds of the control plane, the nodes and Redis."""
        return sum(one.cpu_seconds for one in self.usage if not one.ours)


class Meter:
    """Watches the processes of one local cluster. A process that is started anew counts on."""

    def __init__(self, name: str) -> None:
        self._files = ClusterFiles.of(name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Reading]:
        """Meter a block."""
        reading, books = Reading(), _Books()
        requests = await self._requests()
        books.open(self._processes())  # now, as a process that is frozen is waited for before
        looking = asyncio.create_task(self._look(books, requests))
        try:
            yield reading
        finally:
            looking.cancel()
            await asyncio.wait([looking])
        books.look(self._processes())
        reading.usage = books.usage()
        reading.services_peak_mib = books.services_peak / 2**20
        reading.services_peak_proportional_mib = books.services_peak_proportional / 2**20
        reading.requests = await self._requests() - requests

    async def _look(self, books: _Books, requests: Counter[Request]) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            lost = books.look(self._processes())
            for service in lost:  # its counters begin at zero again
                for key in [key for key in requests if key[0] == service]:
                    del requests[key]

    def _processes(self) -> list[ProcessRecord]:
        record = self._files.read()
        assert record is not None, "the cluster is gone"
        return [record.supervisor, *record.processes]

    async def _requests(self) -> Counter[Request]:
        """What the services have asked of the API server since they were started, as they count it."""
        services = [one for one in self._processes() if one.name not in SURROUNDINGS and one.pid]
        async with aiohttp.ClientSession() as session:
            found = await asyncio.gather(*(_asked(session, one) for one in services))
        return sum(found, Counter())


async def _asked(session: aiohttp.ClientSession, process: ProcessRecord) -> Counter[Request]:
    requests: Counter[Request] = Counter()
    for family in await scrape(session, process.address):
        for sample in family.samples:
            if sample.name == "kai_api_requests_total":
                _count(requests, process.name, sample.labels, sample.value)
    return requests


def _count(requests: Counter[Request], service: str, labels: Mapping[str, Any], value: float) -> None:
    verb, resource = labels["verb"], labels["resource"]
    if verb not in _STEADY_VERBS and resource not in _STEADY_RESOURCES:
        requests[service, verb, resource] += int(value)


def _proportional(pid: int) -> int:
    """The proportional set size of a process, bytes; 0 if it has just ended, or the system does not tell."""
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(1024 * int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:"))


class _Books:
    """CPU and memory by process name, over all processes that bore the name."""

    def __init__(self) -> None:
        self.services_peak = self.services_peak_proportional = 0
        self._opened: dict[int, float] = {}
        self._pids: dict[str, dict[int, float]] = {}
        self._peaks: dict[str, int] = {}

    def open(self, processes: list[ProcessRecord]) -> None:
        """From here on it counts."""
        self.look(processes)
        self._opened = {pid: cpu for spent in self._pids.values() for pid, cpu in spent.items()}

    def look(self, processes: list[ProcessRecord]) -> list[str]:
        """Take a look; the names under which another process runs now than at the last one."""
        together, proportional, changed = 0, 0, []
        for process in processes:
            try:
                running = psutil.Process(process.pid) if process.pid else None
                if running is None:
                    continue
                with running.oneshot():
                    times, memory = running.cpu_times(), running.memory_info().rss
            except psutil.Error:
                continue
            spent = self._pids.setdefault(process.name, {})
            if spent and process.pid not in spent:
                changed.append(process.name)
            spent[process.pid] = times.user + times.system
            self._peaks[process.name] = max(memory, self._peaks.get(process.name, 0))
            if process.name not in SURROUNDINGS:
                together += memory
                proportional += _proportional(process.pid)
        self.services_peak = max(self.services_peak, together)
        self.services_peak_proportional = max(self.services_peak_proportional, proportional)
        return changed

    def usage(self) -> tuple[Usage, ...]:
        """What each spent since it was opened."""
        return tuple(
            Usage(
                process=name,
                cpu_seconds=sum(cpu - self._opened.get(pid, 0.0) for pid, cpu in spent.items()),
                peak_mib=self._peaks[name] / 2**20,
            )
            for name, spent in self._pids.items()
        )
