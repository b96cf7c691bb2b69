"""How fast the whole pipeline places pods, and who spends the time: ``python -m e2e.bench.pipeline``.

An embedded cluster, or with ``--real`` a real control plane, with all its processes; one-GPU pods are created
as fast as the API server takes them. The rate is taken from the last pod created to the last pod bound, and
from the first pod created. CPU seconds and peak memory are those of each process; requests are those of our
services beside the user's, where the API server counts them.
A run counts only if every pod runs, each on a GPU of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from e2e.harness import Cluster, kai
from e2e.manifests import a_pod, a_queue, as_yaml
from e2e.metrics import total
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import PODS
from kai.kube.store import Store
from kai.model.objects import Pod
from kai_cli.output import Column, table

NAMESPACE = "bench"
CREATING = 16
PATIENCE_SECONDS = 600.0
LOOK_SECONDS = 1.0
#: Cores that all processes together use when they do nothing but keep their leases.
RESTING_CORES = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process spent during the run."""

    process: str
    cpu_seconds: float
    memory_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run. Times are in seconds, rates in pods a second."""

    pods: int
    nodes: int
    gpus_per_node: int
    binders: int
    created_in: float
    bound_after_last_created: float
    bound_after_first_created: float
    pods_per_second: float
    requests_per_pod: float
    #: Mean milliseconds from a pod's creation to the decision about it, as the scheduler counts them.
    decided_after: float
    #: Cycles that insight recorded and that came out the same when decided again; None without it.
    replayed: int | None
    usage: tuple[Usage, ...]
    correct: bool

    @property
    def api_server_share(self) -> float:
        """Part of all CPU time that the API server emulator spent."""
        total = sum(one.cpu_seconds for one in self.usage)
        return (
            sum(one.cpu_seconds for one in self.usage if one.process == "apiserver") / total if total else 0.0
        )


async def measure(cluster: Cluster, options: argparse.Namespace, progress: Progress) -> Report:
    """Create the pods, wait until they run, and look at what it cost."""
    await cluster.apply(
        as_yaml(a_queue("bench"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    )
    before = await at_rest(cluster)
    if not options.real:
        await cluster.client.raw("/kai.local/requests", method="DELETE")
    watch = Watch(progress, options.pods)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(watch.follow(cluster.client))
        began = time.monotonic()
        await create(cluster.client, options.pods)
        created = time.monotonic()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watch.done.wait()
        following.cancel()
    bound = watch.last_bound
    pods = await cluster.client.list(PODS, namespace=NAMESPACE, type=Pod)
    after = processes(cluster)
    ours = math.nan if options.real else await requests_of_ours(cluster)
    return Report(
        pods=options.pods,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        binders=options.binders,
        created_in=created - began,
        bound_after_last_created=bound - created,
        bound_after_first_created=bound - began,
        pods_per_second=options.pods / (bound - began),
        requests_per_pod=ours / options.pods,
        decided_after=await decision_milliseconds(cluster),
        replayed=await replayed(cluster) if options.history else None,
        usage=tuple(
            Usage(
                process=name,
                cpu_seconds=round(after[name][0] - before.get(name, (0.0, 0.0))[0], 2),
                memory_mib=round(after[name][1], 1),
            )
            for name in after
        ),
        correct=is_correct(pods, options.pods, options.gpus_per_node),
    )


async def decision_milliseconds(cluster: Cluster) -> float:
    """From creation to decision, on average over all pods."""
    [address] = [
        process["address"] for process in cluster.status()["processes"] if process["name"] == "scheduler"
    ]
    name = "kai_task_scheduling_latency_milliseconds"
    return await total([address], f"{name}_sum") / await total([address], f"{name}_count")


async def replayed(cluster: Cluster) -> int:
    """How many cycles came out as they did, once all are recorded; fails where one did not."""
    told = await asyncio.to_thread(
        kai, "replay", "--since=1h", "--output=json", kubeconfig=cluster.kubeconfig
    )
    return sum(stretch["same"] for stretch in json.loads(told))


async def requests_of_ours(cluster: Cluster) -> int:
    """What the services asked of the embedded API server, beside watches and Leases."""
    requests = await cluster.client.raw("/kai.local/requests")
    return sum(
        entry["count"]
        for entry in requests["requests"]
        if entry["userAgent"].startswith("kai-")
        and not entry["userAgent"].startswith(("kai-local", "kai-cli"))
        and entry["verb"] != "watch"
        and entry["resource"] != "leases"
    )


async def at_rest(cluster: Cluster) -> dict[str, tuple[float, float]]:
    """The processes once they have nothing left to do of the start, which shall not be counted."""
    before = processes(cluster)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = processes(cluster)
        if sum(now[name][0] - before.get(name, (0.0, 0.0))[0] for name in now) < RESTING_CORES * LOOK_SECONDS:
            return now
        before = now


async def create(client: KubeClient, count: int) -> None:
    """All pods, a few requests at a time."""
    slots = asyncio.Semaphore(CREATING)

    async def one(number: int) -> None:
        async with slots:
            await client.create(
                PODS, a_pod(f"p{number}", NAMESPACE, "bench", gpus=1), namespace=NAMESPACE, type=Pod
            )

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(one(number))


class Watch:
    """Follows the pods until all run; remembers when the last one was bound."""

    def __init__(self, progress: Progress, count: int) -> None:
        self.done = asyncio.Event()
        self.last_bound = 0.0
        self._bound: set[str] = set()
        self._running: set[str] = set()
        self._count = count
        self._progress = progress
        self._bar = progress.add_task("pods bound", total=count)

    async def follow(self, client: KubeClient) -> None:
        """Run until cancelled."""
        store: Store[Pod] = Store()
        store.listen(self._note)
        await Reflector(client, PODS, Pod, namespace=NAMESPACE).run(store)

    def _note(self, _: Pod | None, pod: Pod | None) -> None:
        if pod is None:
            return
        if pod.spec.node_name and pod.metadata.uid not in self._bound:
            self._bound.add(pod.metadata.uid)
            self.last_bound = time.monotonic()
            self._progress.update(self._bar, completed=len(self._bound))
        if pod.status.phase == "Running":
            self._running.add(pod.metadata.uid)
            if len(self._running) == self._count:
                self.done.set()


def is_correct(pods: list[Pod], count: int, gpus_per_node: int) -> bool:
    """Every pod runs, and no node runs more than it has GPUs."""
    per_node = Counter(pod.spec.node_name for pod in pods)
    running = sum(pod.status.phase == "Running" for pod in pods)
    return running == len(pods) == count and all(used <= gpus_per_node for used in per_node.values())


def processes(cluster: Cluster) -> dict[str, tuple[float, float]]:
    """CPU seconds and MiB of each process."""
    return {
        process["name"]: (process["cpuSeconds"], process["memoryBytes"] / 2**20)
        for process in cluster.status()["processes"]
    }


@contextmanager
def embedded(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """A cluster of its own for the run."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="kai-bench-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        size = (f"--nodes={options.nodes}", f"--gpus-per-node={options.gpus_per_node}")
        up = (
            "local",
            "up",
            f"--name={name}",
            *size,
            f"--binders={options.binders}",
            f"--kubeconfig={kubeconfig}",
            *(["--real"] if options.real else []),
            *(["--history"] if options.history else []),
        )
        kai(*up, "--detach")
        try:
            yield name, kubeconfig
        finally:
            kai("local", "down", f"--name={name}")


async def run(options: argparse.Namespace, screen: Console) -> Report:
    """One run on a fresh cluster."""
    with embedded(options) as (name, kubeconfig), Progress(console=screen) as progress:
        async with KubeClient.connect(str(kubeconfig), user_agent="bench") as client:
            return await measure(Cluster(kubeconfig=kubeconfig, client=client, name=name), options, progress)


def show(report: Report, screen: Console) -> None:
    """The report for people."""
    spent = sum(one.cpu_seconds for one in report.usage)
    rows = [
        (
            one.process,
            f"{one.cpu_seconds:.2f}",
            f"{100 * one.cpu_seconds / spent:.0f} %",
            f"{one.memory_mib:.0f}",
        )
        for one in sorted(report.usage, key=lambda one: -one.cpu_seconds)
    ]
    columns = (Column("PROCESS"), Column("CPU S", True), Column("SHARE", True), Column("MIB", True))
    screen.print(table(columns, rows))
    verdict = (
        "all pods run, each on a GPU of its own"
        if report.correct
        else "WRONG: not every pod runs on its own GPU"
    )
    screen.print(
        f"{report.pods} pods, {report.nodes} nodes x {report.gpus_per_node} GPUs, {report.binders} binders: "
        f"created in {report.created_in:.1f} s, last bound {report.bound_after_last_created:.2f} s later; "
        f"{report.pods_per_second:.0f} pods a second from the first created; "
        f"{report.requests_per_pod:.2f} requests of ours per pod; "
        f"decided {report.decided_after:.0f} ms after creation on average; "
        f"{'' if report.replayed is None else f'{report.replayed} cycles decided again the same; '}"
        f"API server {100 * report.api_server_share:.0f} % of all CPU time; {verdict}",
        highlight=False,
    )


def main() -> int:
    """Measure; exit status 1 if a pod is lost or a GPU is given twice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=125)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--binders", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="on etcd, kube-apiserver and KWOK")
    parser.add_argument(
        "--history", action="store_true", help="with insight, which decides every cycle again"
    )
    parser.add_argument("--json", type=Path, help="write the report here, too")
    options = parser.parse_args()
    if options.pods > options.nodes * options.gpus_per_node:
        parser.error("--pods: more pods than GPUs")
    screen = Console(stderr=False)
    report = asyncio.run(run(options, screen))
    show(report, screen)
    if options.json:
        document: dict[str, Any] = asdict(report) | {"api_server_share": report.api_server_share}
        options.json.write_text(json.dumps(document, indent=2))
    return 0 if report.correct else 1


if __name__ == "__main__":
    sys.exit(main())
