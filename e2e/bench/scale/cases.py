"""The cases. Each brings about what it measures, waits for it, and says what is not as it must be."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from e2e.bench.scale.meter import Reading
from e2e.bench.scale.world import COMING, Size, World
from kai.model.decisions import Reason


@dataclass(slots=True)
class Result:
    """What a case took, in seconds, what was spent meanwhile, and what is wrong.

    ``seconds`` is None where it did not come to its end.
    """

    seconds: float | None
    pods: int
    reading: Reading
    faults: list[str] = field(default_factory=list)
    #: Seconds from when a pod was created until it was bound, where each one's counts.
    latencies: list[float] = field(default_factory=list)

    @property
    def requests_per_pod(self) -> float:
        """Of our services, beside watches and Leases."""
        return sum(self.reading.requests.values()) / self.pods

    @property
    def told(self) -> str:
        """The time, for people."""
        return "-" if self.seconds is None else f"{self.seconds:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the table. ``after``: the case that brings about what this one needs; empty: nothing does.

    ``original`` and ``unlimited`` are the seconds of the original with 500 nodes, the latter without its
    limits on requests; ``aim`` is what we want. None: not measured, or none.
    """

    name: str
    title: Callable[[Size], str]
    run: Callable[[World], Awaitable[Result]]
    after: str = ""
    original: float | None
    unlimited: float | None = None
    aim: float | None


# --- sizes ----------------------------------------------------------------------------------------
def gang_size(size: Size) -> int:
    """Pods of the large gang: 512 on 500 nodes."""
    return max(2, round(size.gpus * 512 / 4000))


def short_gang(size: Size) -> tuple[int, int]:
    """Pods of the gang that does not fit, and what the queue of the others may be left without."""
    pods = min(10, size.nodes)
    return pods, pods * size.gpus_per_node - 1


def half(size: Size) -> int:
    """Nodes of the gang that half of the cluster is reclaimed for."""
    return size.nodes // 2


def gangs_of_ten(size: Size) -> int:
    """How many gangs of ten large pods a cluster takes whose small pods are moved: 41 on 500 nodes."""
    return max(1, size.nodes * 41 // 500)


#: Single pods: how many at rest, and the pause between them; how many in a stream, and its pace. Each at most
#: half of the GPUs of a cluster, as both run on the same one.
AT_REST, AT_REST_SECONDS = 60, 0.5
STREAM, STREAM_EACH_SECOND = 400, 20
#: GPUs of each pod of those gangs, and the one-GPU pods that are left on each node before.
LARGE_POD, LEFT = 6, 3


# --- cases ----------------------------------------------------------------------------------------
async def fill(world: World) -> Result:
    """One-GPU pods on all GPUs, from the first one created to the last one bound."""
    count = world.size.gpus
    batch = world.pods.batch("fill")
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_pods("fill", count)
        bound = await world.all_bound(batch, count, what="fill: pods bound")
        await world.all_running(batch, count, what="fill: pods running")
    return _result(world, bound - began, count, reading)


async def bare_requests(world: World) -> Result:
    """As many pods, created and bound by nothing but these two requests, while our services are away.

    What the control plane takes for that no scheduler undercuts. Admission stays, as it is asked.
    """
    return await _bare_requests(world, "bare", grouped=False)


async def bare_requests_with_groups(world: World) -> Result:
    """The same with a PodGroup for each pod, as schedulers need that keep their record in Kubernetes."""
    return await _bare_requests(world, "grouped", grouped=True)


async def _bare_requests(world: World, name: str, *, grouped: bool) -> Result:
    count = world.size.gpus
    batch = world.pods.batch(name)
    async with world.services_away(but={"admission"}):
        await world.at_rest()
        async with world.meter.running() as reading:
            began = time.monotonic()
            await world.submit_bound_pods(name, count, grouped=grouped)
            bound = await world.all_bound(batch, count, what="bare requests: pods bound")
            await world.all_running(batch, count, what="bare requests: pods running")
    return _result(world, bound - began, count, reading)


async def pods_at_rest(world: World) -> Result:
    """Single pods, each created when the one before is bound and a moment has passed."""
    return await _one_by_one(world, "single", AT_REST, pause=AT_REST_SECONDS, wait=True)


async def stream_of_pods(world: World) -> Result:
    """Single pods at a steady pace, whatever became of those before."""
    return await _one_by_one(world, "stream", STREAM, pause=1 / STREAM_EACH_SECOND, wait=False)


async def _one_by_one(world: World, name: str, most: int, *, pause: float, wait: bool) -> Result:
    count = min(most, world.size.gpus // 2)
    batch = world.pods.batch(name)
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        created = await world.submit_paced(name, count, pause=pause, wait=wait)
        bound = await world.all_bound(batch, count, what=f"{name} pods: bound")
        await world.all_running(batch, count, what=f"{name} pods: running")
    result = _result(world, bound - began, count, reading)
    result.latencies = sorted(max(0.0, batch.bound_at[uid] - at) for uid, at in created.items())
    return result


async def fill_by_jobs(world: World) -> Result:
    """Jobs of one pod on all GPUs, from the scheduler's start, with all submitted, to the last one bound."""
    count = world.size.gpus
    batch = world.pods.batch("job")
    world.freeze_scheduler()
    await world.submit_jobs("job", count, pods=1)
    await world.pods.until(lambda: len(batch.existing) == count, within=600, what="the Jobs have pods")
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.start_scheduler_anew()
        bound = await world.all_bound(batch, count, what="fill by Jobs: pods bound")
        await world.all_running(batch, count, what="fill by Jobs: pods running")
    result = _result(world, bound - began, count, reading)
    if len(batch.bound_at) != count:
        result.faults.append(f"{len(batch.bound_at)} pods were bound for {count} Jobs")
    return result


async def gang(world: World) -> Result:
    """One Job whose pods start together, from its creation to the last pod bound."""
    count = gang_size(world.size)
    batch = world.pods.batch("gang")
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_jobs("gang", 1, pods=count)
        bound = await world.all_bound(batch, count, what="gang: pods bound")
        await world.all_running(batch, count, what="gang: pods running")
    return _result(world, bound - began, count, reading)


async def gang_one_gpu_short(world: World) -> Result:
    """A gang of whole nodes, while the queue of the running pods may lose one GPU less than it needs."""
    pods, to_spare = short_gang(world.size)
    batch, others = world.pods.batch("short"), world.pods.batch("fill")
    running = set(others.running)
    await world.share(filling=len(running) - to_spare, coming=to_spare + 1)
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_jobs("short", 1, pods=pods, queue=COMING, gpus=world.size.gpus_per_node)
        marked = await world.marked(batch, what="gang one GPU short: marked unschedulable")
    result = _result(world, marked - began, pods, reading)
    reasons = await world.reasons("short")
    if reasons != {Reason.POD_SCHEDULING_ERRORS}:
        result.faults.append(f"the reasons are {sorted(reasons)}, not {Reason.POD_SCHEDULING_ERRORS}")
    if batch.bound_at or others.running != running:
        result.faults.append("something was bound or evicted for a gang that cannot run")
    await world.remove_jobs(["short-0"])
    await world.gone(batch, what="the gang is gone")
    await world.at_rest()
    if others.running != running:
        result.faults.append(f"{len(running - others.running)} pods were evicted for a gang that was deleted")
    return result


async def pod_too_large(world: World) -> Result:
    """A pod that asks for more GPUs than a node has."""
    batch = world.pods.batch("large")
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_pods("large", 1, queue=COMING, gpus=world.size.gpus_per_node + 1)
        marked = await world.marked(batch, what="too large a pod: marked unschedulable")
    result = _result(world, marked - began, 1, reading)
    reasons = await world.reasons("large")
    if reasons != {Reason.POD_SCHEDULING_ERRORS}:
        result.faults.append(f"the reasons are {sorted(reasons)}, not {Reason.POD_SCHEDULING_ERRORS}")
    await world.remove_pods(["large-0"])
    await world.gone(batch, what="the pod is gone")
    return result


async def reclaim_one(world: World) -> Result:
    """A pod of a queue below its share, on a full cluster."""
    batch, others = world.pods.batch("one"), world.pods.batch("fill")
    before = len(others.running)
    await world.share(filling=world.size.gpus // 2, coming=world.size.gpus // 2)
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_pods("one", 1, queue=COMING)
        bound = await world.all_bound(batch, 1, what="reclaim of one GPU: pod bound")
        await world.all_running(batch, 1, what="reclaim of one GPU: pod running")
    result = _result(world, bound - began, 1, reading)
    _expect_victims(result, before - len(others.running), 1)
    return result


async def reclaim_half(world: World) -> Result:
    """A gang that takes half of the cluster from a queue above its share."""
    pods = half(world.size)
    batch, others = world.pods.batch("half"), world.pods.batch("fill")
    await world.share(filling=0, coming=world.size.gpus)
    await world.remove_pods(["one-0"])
    await world.gone(world.pods.batch("one"), what="the pod of the case before is gone")
    free, before = world.size.gpus - len(others.running), len(others.running)
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_jobs("half", 1, pods=pods, queue=COMING, gpus=world.size.gpus_per_node)
        bound = await world.all_bound(batch, pods, what="reclaim of half the cluster: pods bound")
        await world.all_running(batch, pods, what="reclaim of half the cluster: pods running")
    result = _result(world, bound - began, pods, reading)
    _expect_victims(result, before - len(others.running), pods * world.size.gpus_per_node, free)
    return result


async def deletion_alone(world: World) -> Result:
    """As many pods as were reclaimed, deleted while our services are away: what others need for it."""
    batch = world.pods.batch("fill")
    running = sorted(pod.metadata.name for pod in world.pods if pod.metadata.uid in batch.running)
    going = running[: half(world.size) * world.size.gpus_per_node]
    left = len(batch.existing) - len(going)
    async with world.services_away():
        await world.at_rest()
        async with world.meter.running() as reading:
            began = time.monotonic()
            await world.remove_pods(going)
            await world.gone(batch, left=left, what="deletion: pods gone")
            took = time.monotonic() - began
    return _result(world, took, len(going), reading)


async def consolidation(world: World) -> Result:
    """Gangs of large pods, for which there is room once small pods are moved together."""
    count = gangs_of_ten(world.size)
    left = await _thin_out(world)
    small, batch = world.pods.batch("job"), world.pods.batch("large-gang")
    before = set(small.running)
    await world.at_rest()
    async with world.meter.running() as reading:
        began = time.monotonic()
        await world.submit_jobs("large-gang", count, pods=10, gpus=LARGE_POD)
        bound = await world.all_bound(batch, 10 * count, what="consolidation: pods bound")
        await world.all_running(batch, 10 * count, what="consolidation: pods running")
    result = _result(world, bound - began, 10 * count, reading)
    moved = len(before - small.running)
    if moved < 10 * count:
        result.faults.append(f"{moved} pods were moved, and {10 * count} at least had to be")
    await world.all_running(small, left, what="consolidation: moved pods run again")
    result.faults = [*result.faults, *world.pods.faults(world.size.gpus_per_node)]
    return result


CASES = (
    Case(
        name="fill",
        title=lambda size: f"fill: {size.gpus} one-GPU pods",
        run=fill,
        original=404,
        unlimited=309,
        aim=70,
    ),
    Case(
        name="gang-one-gpu-short",
        title=lambda size: f"gang of {short_gang(size)[0]} x {size.gpus_per_node}, one GPU short: marked",
        run=gang_one_gpu_short,
        after="fill",
        original=137,
        aim=2,
    ),
    Case(
        name="pod-too-large",
        title=lambda size: f"one pod of {size.gpus_per_node + 1} GPUs: marked",
        run=pod_too_large,
        after="fill",
        original=0.46,
        aim=0.4,
    ),
    Case(
        name="reclaim-one",
        title=lambda size: "reclaim of one GPU: bound",
        run=reclaim_one,
        after="fill",
        original=2.6,
        aim=1.0,
    ),
    Case(
        name="reclaim-half",
        title=lambda size: f"reclaim of {half(size) * size.gpus_per_node} GPUs for one gang",
        run=reclaim_half,
        after="fill",
        original=96,
        aim=12,
    ),
    Case(
        name="deletion-alone",
        title=lambda size: f"deletion of {half(size) * size.gpus_per_node} pods, our services away",
        run=deletion_alone,
        after="fill",
        original=None,
        aim=None,
    ),
    Case(
        name="fill-by-jobs",
        title=lambda size: f"fill by {size.gpus} Jobs, scheduler started then",
        run=fill_by_jobs,
        original=398,
        aim=60,
    ),
    Case(
        name="consolidation",
        title=lambda size: f"consolidation: {gangs_of_ten(size)} gangs of 10 x {LARGE_POD} GPUs",
        run=consolidation,
        after="fill-by-jobs",
        original=120,
        aim=15,
    ),
    Case(
        name="pods-at-rest",
        title=lambda size: f"{min(AT_REST, size.gpus // 2)} single pods, one after the other",
        run=pods_at_rest,
        original=None,
        aim=None,
    ),
    Case(
        name="stream-of-pods",
        title=lambda size: f"{min(STREAM, size.gpus // 2)} single pods, {STREAM_EACH_SECOND} a second",
        run=stream_of_pods,
        after="pods-at-rest",
        original=None,
        aim=None,
    ),
    Case(
        name="bare-requests",
        title=lambda size: f"{size.gpus} pods created and bound by bare requests",
        run=bare_requests,
        original=None,
        aim=None,
    ),
    Case(
        name="bare-requests-with-groups",
        title=lambda size: f"{size.gpus} pods, each with a PodGroup, by bare requests",
        run=bare_requests_with_groups,
        original=None,
        aim=None,
    ),
    Case(
        name="gang",
        title=lambda size: f"one gang of {gang_size(size)} (a Job)",
        run=gang,
        original=101,
        unlimited=65,
        aim=10,
    ),
)


async def _thin_out(world: World) -> int:
    """Remove Jobs until each node has few; how many are left."""
    by_node = defaultdict(list)
    for pod in world.pods:
        by_node[pod.spec.node_name].append(pod.labels["job-name"])
    surplus = [job for jobs in by_node.values() for job in jobs[LEFT:]]
    await world.remove_jobs(surplus)
    left = sum(min(len(jobs), LEFT) for jobs in by_node.values())
    await world.all_running(world.pods.batch("job"), left, what="thinning out")
    return left


def _result(world: World, seconds: float, pods: int, reading: Reading) -> Result:
    return Result(seconds, pods, reading, world.pods.faults(world.size.gpus_per_node))


def _expect_victims(result: Result, victims: int, needed: int, free: int = 0) -> None:
    if not needed - free <= victims <= needed:
        result.faults.append(f"{victims} pods were evicted for {needed} GPUs, of which {free} were free")
