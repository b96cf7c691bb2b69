"""How fast pods are grouped, and what it costs: ``python -m e2e.bench.grouping``.

An embedded API server and a pod-grouper, each a process of its own. 1. A backlog: all pods exist when the
pod-grouper starts. 2. A gang that arrives while it runs. 3. A restart over all of it. Of each: pods a second
by the clock and by a second of the pod-grouper's own CPU time (what one core would do), and its requests.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

import deadlines
from e2e.api_server import serving
from e2e.manifests import a_job
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES
from kai.model.objects import ApiObject
from kai_local.installation.bootstrap import definitions

COUNTS = "/kai.local/requests"
#: Waits of the ordinary kind that one for many workloads may take.
PATIENCE = 10.0


@dataclass
class Bench:
    """A cluster under load."""

    client: KubeClient
    kubeconfig: Path
    server: psutil.Process
    session: aiohttp.ClientSession

    async def submit(self, workloads: int, size: int, *, prefix: str) -> int:
        """Create Jobs and their pods; gives the number of pods."""
        slots = asyncio.Semaphore(64)

        async def one(number: int) -> None:
            async with slots:
                body = a_job(f"{prefix}-{number}", "default", "research", pods=size, gang=size, gpus=1)
                job = await self.client.create(JOBS, body, namespace="default")
            for index in range(size):
                async with slots:
                    await self.client.create(PODS, a_member(job, index), namespace="default", type=ApiObject)

        async with asyncio.TaskGroup() as tasks:
            for number in range(workloads):
                tasks.create_task(one(number))
        return workloads * size

    async def grouped(self) -> int:
        """How many pods have their annotation."""
        pods = await self.client.list(PODS, type=ApiObject)
        return sum("pod-group-name" in pod.annotations for pod in pods)

    async def counts(self, *, reset: bool = False) -> Counter[str]:
        """Requests of the pod-grouper since the last reset."""
        method = "DELETE" if reset else "GET"
        async with self.session.request(method, f"{self.client.server}{COUNTS}") as answer:
            entries = (await answer.json())["requests"]
        found: Counter[str] = Counter()
        for entry in entries:
            if entry["userAgent"].startswith("kai-pod-grouper"):
                found[f"{entry['verb']} {entry['resource']}"] += entry["count"]
        return found


def a_member(job: dict[str, Any], index: int) -> dict[str, Any]:
    """The pod that a Job's controller would make of its template."""
    meta, template = job["metadata"], job["spec"]["template"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    named = {"name": f"{meta['name']}-{index}", "ownerReferences": [owner]}
    return {"metadata": template["metadata"] | named, "spec": template["spec"]}


def admin_session(folder: Path) -> aiohttp.ClientSession:
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    headers = {"Authorization": f"Bearer {(folder / 'token').read_text()}"}
    return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=trust))


@asynccontextmanager
async def a_bench() -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        async with (
            KubeClient.connect(str(server.kubeconfig), user_agent="bench") as client,
            admin_session(server.folder) as session,
        ):
            for definition in definitions(POD_GROUPS):
                await client.create(CRDS, definition)
            await client.create(PRIORITY_CLASSES, {"metadata": {"name": "train"}, "value": 50})
            yield Bench(client, server.kubeconfig, psutil.Process(server.pid), session)


@asynccontextmanager
async def a_pod_grouper(bench: Bench) -> AsyncIterator[psutil.Process]:
    ports = (f"--{name}=127.0.0.1:0" for name in ("health-listen", "metrics-listen", "grpc-listen"))
    command = (
        sys.executable,
        "-m",
        "kai_pod_grouper",
        f"--kubeconfig={bench.kubeconfig}",
        "--log-level=warning",
    )
    process = await asyncio.create_subprocess_exec(*command, *ports)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


def cpu_of(process: psutil.Process) -> float:
    """Seconds of CPU time."""
    times = process.cpu_times()
    return times.user + times.system


async def measure(
    bench: Bench,
    title: str,
    process: psutil.Process,
    pods: int,
    *,
    started: float,
    cpu: float,
    server_cpu: float,
) -> None:
    """Wait until all pods are grouped and say what that took."""

    async def done() -> bool:
        return (await bench.counts())["patch pods"] >= pods

    await deadlines.eventually(done, what="all pods are grouped", times=PATIENCE)
    wall = time.monotonic() - started
    own, theirs = cpu_of(process) - cpu, cpu_of(bench.server) - server_cpu
    counts = await bench.counts()
    shown = {key: n for key, n in sorted(counts.items()) if not key.startswith(("watch", "list"))}
    memory = process.memory_info().rss / 2**20
    sys.stdout.write(
        f"{title}: {pods} pods in {wall:.2f} s = {pods / wall:.0f} pods/s\n"
        f"  pod-grouper: {own:.2f} s of CPU = {pods / own:.0f} pods/s on one core, {memory:.0f} MiB\n"
        f"  API server: {theirs:.2f} s of CPU; requests: {shown}\n"
    )


async def run(workloads: int, size: int, gang: int) -> None:
    async with a_bench() as bench:
        pods = await bench.submit(workloads, size, prefix="backlog")
        await bench.counts(reset=True)

        async def first_request() -> bool:
            return (await bench.counts())["get jobs"] > 0

        async with a_pod_grouper(bench) as process:
            await deadlines.eventually(first_request, what="the pod-grouper begins", times=PATIENCE)
            since = {"started": time.monotonic(), "cpu": cpu_of(process), "server_cpu": cpu_of(bench.server)}
            await measure(bench, f"backlog of {workloads} workloads", process, pods, **since)
            await bench.counts(reset=True)
            since = {"started": time.monotonic(), "cpu": cpu_of(process), "server_cpu": cpu_of(bench.server)}
            pods = await bench.submit(1, gang, prefix="gang")
            await measure(bench, "gang that arrives", process, pods, **since)
        await bench.counts(reset=True)

        async def all_read() -> bool:
            return (await bench.counts())["get jobs"] > workloads

        async with a_pod_grouper(bench) as process:
            await deadlines.eventually(all_read, what="all owners are read again", times=PATIENCE)
            counts, own = await bench.counts(), cpu_of(process)
        writes = sum(n for key, n in counts.items() if key.startswith(("create", "patch", "update")))
        sys.stdout.write(f"restart: {counts['get jobs']} reads, {writes} writes, {own:.2f} s of CPU\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--size", type=int, default=10, help="pods of each workload")
    parser.add_argument("--gang", type=int, default=512, help="pods of the gang that arrives")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.workloads, arguments.size, arguments.gang))


if __name__ == "__main__":
    main()
