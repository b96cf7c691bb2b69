"""What the statuses of many queues and pod groups cost: ``make statuses``.

5,000 queues in five levels and 20,000 pod groups of one running pod each, on an embedded API server; a
podgroup-controller and a queue-controller, each a process of its own. 1. A backlog: all exist when the two
start, and nothing has a status. 2. Some pods end. 3. Nobody does anything. 4. The two are started anew. Of
each: seconds until all is as it must be, CPU, memory, and writes by resource, beside the least that there
can be. Sums have to be exact on every level, and where nothing changed nothing may be written.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from e2e.api_server import serving
from e2e.bench.grouping import COUNTS, admin_session, cpu_of
from e2e.manifests import a_group, a_pod, a_queue
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from kai.model import names
from kai.model.objects import ApiObject, Queue
from kai.model.resource_lists import parsed
from kai_local.installation.bootstrap import definitions

LEVELS = 5
LIMIT_SECONDS = 1200.0
#: Nothing is written for so long: it has settled.
CALM_SECONDS = 6.0
CREATED_AT_ONCE = 64
CONTROLLERS = {"kai_podgroup_controller": "podgroup-controller", "kai_queue_controller": "queue-controller"}
_QUIET = ("--log-level=warning", "--leader-elect=false")


# --- the tree ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Tree:
    """Queues by name with the name of their parent; the roots have none."""

    parents: dict[str, str]
    leaves: list[str]

    def path(self, queue: str) -> Iterator[str]:
        """A queue and all above it."""
        while queue:
            yield queue
            queue = self.parents[queue]


def a_tree(queues: int, *, levels: int = LEVELS) -> Tree:
    """So many queues in so many levels, each some times as wide as the one above; leaves are the last."""
    widths = _widths(queues, levels)
    parents: dict[str, str] = {}
    above: list[str] = [""]
    for level, width in enumerate(widths):
        here = [f"q{level}-{number}" for number in range(width)]
        parents |= {name: above[number % len(above)] for number, name in enumerate(here)}
        above = here
    return Tree(parents, above)


def _widths(queues: int, levels: int) -> list[int]:
    """Each level is about as many times as wide as the one above; the last takes what is left."""
    if queues < levels:
        raise ValueError(f"{queues} queues are too few for {levels} levels")
    factor = 1.0
    while sum(_powers(factor + 0.01, levels)) <= queues:
        factor += 0.01
    *widths, _ = _powers(factor, levels)
    return [*widths, queues - sum(widths)]


def _powers(factor: float, levels: int) -> list[int]:
    return [int(factor ** (level + 1)) for level in range(levels)]


# --- the cluster -------------------------------------------------------------------------------------
@dataclass(slots=True)
class World:
    """An API server with the tree, and what is charged to each of its leaves."""

    client: KubeClient
    kubeconfig: Path
    server: psutil.Process
    session: aiohttp.ClientSession
    tree: Tree
    #: Running pods by leaf.
    running: Counter[str] = field(default_factory=Counter)

    async def furnish(self, groups: int) -> None:
        """Queues from the top down, then the groups with a pod each, over the leaves in turn."""
        for name, parent in self.tree.parents.items():
            await self.client.create(QUEUES, a_queue(name, parent=parent), type=ApiObject)
        slots = asyncio.Semaphore(CREATED_AT_ONCE)

        async def one(number: int) -> None:
            leaf, name = self.leaf_of(number), f"g{number}"
            group = a_group(name, "default", leaf, minMember=1, priorityClassName="train")
            pod = a_pod(name, "default", leaf, gpus=1, annotations={names.POD_GROUP_ANNOTATION: name})
            pod["spec"]["nodeName"] = "n1"
            async with slots:
                await self.client.create(POD_GROUPS, group, namespace="default", type=ApiObject)
                await self.client.create(PODS, pod, namespace="default", type=ApiObject)
                await self.phase(name, "Running")
            self.running[leaf] += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(groups):
                tasks.create_task(one(number))

    def leaf_of(self, group: int) -> str:
        """Where a group is charged."""
        return self.tree.leaves[group % len(self.tree.leaves)]

    async def end_pods(self, count: int) -> None:
        """The pods of the first so many groups succeed."""
        for number in range(count):
            await self.phase(f"g{number}", "Succeeded")
            self.running[self.leaf_of(number)] -= 1

    async def phase(self, pod: str, phase: str) -> None:
        """What a kubelet would say of a pod."""
        status = {"status": {"phase": phase}}
        await self.client.patch(PODS, pod, status, namespace="default", subresource="status", type=ApiObject)

    def expected(self) -> Counter[str]:
        """GPUs by queue, on every level."""
        found: Counter[str] = Counter()
        for leaf, count in self.running.items():
            for queue in self.tree.path(leaf):
                found[queue] += count
        return found

    async def wrong(self) -> list[str]:
        """Queues whose status is not the sum of what is charged below them, exactly."""
        expected = self.expected()
        queues = await self.client.list(QUEUES, type=Queue)
        return [
            f"{queue.metadata.name} says {told}, not {expected[queue.metadata.name]}"
            for queue in queues
            for told in [_gpus(queue)]
            if told != expected[queue.metadata.name]
        ]

    async def writes(self) -> dict[str, Counter[str]]:
        """By service, what was written since the last reset: ``patch queues/status`` and its like."""
        async with self.session.get(f"{self.client.server}{COUNTS}") as answer:
            entries = (await answer.json())["requests"]
        found: dict[str, Counter[str]] = {service: Counter() for service in CONTROLLERS.values()}
        for entry in entries:
            service = entry["userAgent"].removeprefix("kai-").partition("/")[0]
            writes = entry["verb"] in ("create", "patch", "update") and entry["resource"] != "leases"
            if service in found and writes:
                found[service][f"{entry['verb']} {entry['resource']}"] += entry["count"]
        return found

    async def forget(self) -> None:
        """Count from zero."""
        async with self.session.delete(f"{self.client.server}{COUNTS}") as answer:
            await answer.read()


def _gpus(queue: Queue) -> int | None:
    """What the status says in all three sums; None where they differ, as they must not."""
    status = queue.status
    allocated = int(parsed(((status and status.allocated) or {}).get(names.NVIDIA_GPU, "0")))
    requested = int(parsed(((status and status.requested) or {}).get(names.NVIDIA_GPU, "0")))
    return allocated if allocated == requested else None


@asynccontextmanager
async def a_world(tree: Tree) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        async with (
            KubeClient.connect(str(server.kubeconfig), user_agent="bench") as client,
            admin_session(server.folder) as session,
        ):
            for definition in definitions():
                await client.create(CRDS, definition)
            await client.create(PRIORITY_CLASSES, {"metadata": {"name": "train"}, "value": 50})
            yield World(client, server.kubeconfig, psutil.Process(server.pid), session, tree)


@asynccontextmanager
async def controllers(world: World) -> AsyncIterator[dict[str, psutil.Process]]:
    """Both, by name, while the block runs."""
    async with contextlib.AsyncExitStack() as stack:
        yield {
            service: await stack.enter_async_context(_a_controller(module, world.kubeconfig))
            for module, service in CONTROLLERS.items()
        }


@asynccontextmanager
async def _a_controller(module: str, kubeconfig: Path) -> AsyncIterator[psutil.Process]:
    ports = ("--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0")
    webhook = "webhook" if module == "kai_queue_controller" else "podgroup-webhook"
    flags = (f"--kubeconfig={kubeconfig}", f"--enable-{webhook}=false", *ports, *_QUIET)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *flags)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


# --- the phases --------------------------------------------------------------------------------------
@dataclass(slots=True)
class Phase:
    """What one phase took. ``least`` is what has to be written in any case, by request."""

    title: str
    seconds: float
    cpu_seconds: dict[str, float]
    mib: dict[str, float]
    writes: dict[str, Counter[str]]
    least: dict[str, int]
    wrong: list[str]

    @property
    def faults(self) -> list[str]:
        """What is not as it must be."""
        written = sum((found for found in self.writes.values()), Counter[str]())
        needless = [
            f"{count} x {request}, though nothing changed"
            for request, count in written.items()
            if not self.least.get(request)
        ]
        return [*self.wrong, *needless]


async def settle(world: World, *, calm: float) -> float:
    """Wait until sums are right and nothing is written any more; seconds until the last write was seen."""
    began = last = time.monotonic()
    seen = await world.writes()
    while time.monotonic() - last < calm or await world.wrong():
        if time.monotonic() - began > LIMIT_SECONDS:
            break
        await asyncio.sleep(0.5)  # seldom: what is asked of the server is in what is measured
        if (now := await world.writes()) != seen:
            seen, last = now, time.monotonic()
    return last - began


async def measure(
    world: World, title: str, running: dict[str, psutil.Process], *, least: dict[str, int], calm: float
) -> Phase:
    before = {name: cpu_of(process) for name, process in running.items()}
    seconds = await settle(world, calm=calm)
    return Phase(
        title,
        seconds,
        {name: cpu_of(process) - before[name] for name, process in running.items()},
        {name: process.memory_info().rss / 2**20 for name, process in running.items()},
        await world.writes(),
        least,
        (await world.wrong())[:5],
    )


async def run(queues: int, groups: int, ended: int, *, calm: float = CALM_SECONDS) -> list[Phase]:
    tree, phases = a_tree(queues), []
    touched = {
        queue for number in range(ended) for queue in tree.path(tree.leaves[number % len(tree.leaves)])
    }
    async with a_world(tree) as world:
        await world.furnish(groups)
        async with controllers(world) as running:
            all_of_it = {"patch podgroups/status": groups, "patch queues/status": queues}
            phases.append(await measure(world, "all at once", running, least=all_of_it, calm=calm))
            await world.forget()
            await world.end_pods(ended)
            some = {"patch podgroups/status": ended, "patch queues/status": len(touched)}
            phases.append(await measure(world, f"{ended} pods end", running, least=some, calm=calm))
            await world.forget()
            phases.append(await measure(world, "at rest", running, least={}, calm=2 * calm))
        await world.forget()
        async with controllers(world) as running:
            phases.append(await measure(world, "started anew", running, least={}, calm=2 * calm))
    return phases


def told(phase: Phase) -> str:
    """A phase for people."""
    lines = [f"{phase.title}: settled after {phase.seconds:.1f} s"]
    for service in CONTROLLERS.values():
        spent = f"{phase.cpu_seconds[service]:.1f} s of CPU, {phase.mib[service]:.0f} MiB"
        written = ", ".join(
            f"{count} x {request} (at least {phase.least.get(request, 0)})"
            for request, count in sorted(phase.writes[service].items())
        )
        lines.append(f"  {service}: {spent}; {written or 'nothing written'}")
    return "\n".join([*lines, *(f"  WRONG: {fault}" for fault in phase.faults), ""])


def main() -> int:
    """Measure; exit status 1 if a sum is wrong, or something was written for nothing."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench.statuses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--queues", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=20000)
    parser.add_argument("--ended", type=int, default=200, help="how many pods end in the second phase")
    options = parser.parse_args()
    phases = asyncio.run(run(options.queues, options.groups, options.ended))
    for phase in phases:
        sys.stdout.write(told(phase))
    return 1 if any(phase.faults for phase in phases) else 0


if __name__ == "__main__":
    sys.exit(main())
