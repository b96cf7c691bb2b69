"""The benchmark clusters: objects, actions, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kai.bench.objects import UNLIMITED, a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine.config import ACTIONS
from kai.model.objects import (
    ApiObject,
    ObjectMeta,
    PodGroup,
    Queue,
    Topology,
    TopologyConstraint,
    TopologyLevel,
    TopologySpec,
)
from kai.snapshot.state import Kind

NOW: Final = 1_900_000_000.0
RACK: Final = "benchmark.kai.scheduler/rack"
Objects = list[tuple[Kind, ApiObject]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Bounds on what one cycle decides; ``victims`` and ``pipelined`` are exact where given."""

    most_binds: int
    most_evictions: int
    most_pipelines: int
    binds: int | None = None
    victims: int | None = None
    pipelined: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One cluster. ``arriving`` are the objects that come as events before the warm cycle."""

    name: str
    actions: tuple[str, ...]
    expect: Expectation
    base: Callable[[], Objects]
    arriving: Callable[[], Objects]
    plugins: tuple[str, ...] = ()
    size: int = 0
    family: str = ""
    #: What we aim at: milliseconds warm and cold, at most.
    limits_ms: tuple[float, float] | None = field(default=None)


def _nodes(
    count: int, labels: Callable[[int], dict[str, str]] | None = None
) -> Iterator[tuple[Kind, ApiObject]]:
    for number in range(count):
        yield Kind.NODE, a_node(f"node-{number}", labels=labels(number) if labels else None)


def _priorities() -> Objects:
    return [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]


def _job(
    name: str,
    queue: str,
    number: int,
    *,
    pods: int = 1,
    gpus: int = 1,
    node: str = "",
    priority: str = "train",
    topology: TopologyConstraint | None = None,
    spec: dict[str, object] | None = None,
    labels: dict[str, str] | None = None,
) -> Iterator[tuple[Kind, ApiObject]]:
    started = NOW - 60 if node else 0
    yield (
        Kind.POD_GROUP,
        a_group(
            name,
            queue=queue,
            min_member=pods,
            created=NOW - 100_000 + number,
            started=started,
            priority=priority,
            topology=topology,
        ),
    )
    for pod in range(pods):
        yield Kind.POD, a_pod(f"{name}-{pod}", group=name, gpus=gpus, node=node, spec=spec, labels=labels)


def _department_queues(quota: float, department: float) -> Objects:
    queues: list[Queue] = [
        a_queue(f"dept-{letter}", gpu=department, weight=department, created=NOW) for letter in "ab"
    ]
    queues += [
        a_queue(f"queue-{i}", parent="dept-a" if i < 2 else "dept-b", gpu=quota, weight=1, created=NOW)
        for i in range(4)
    ]
    return [(Kind.QUEUE, queue) for queue in queues]


def _many_queues() -> Objects:
    queues = [a_queue(f"dept-{i}", gpu=80, weight=80, created=NOW) for i in range(5)]
    queues += [
        a_queue(f"queue-{i}", parent=f"dept-{i % 5}", gpu=20, weight=1, created=NOW) for i in range(20)
    ]
    return [(Kind.QUEUE, queue) for queue in queues]


def _under_default(*queues: Queue) -> Objects:
    return [
        (Kind.QUEUE, a_queue("default", gpu=UNLIMITED, weight=0)),
        *((Kind.QUEUE, queue) for queue in queues),
    ]


def _departments(
    name: str,
    actions: tuple[str, ...],
    nodes: int,
    jobs: int,
    quota: float,
    department: float,
    expect: Expectation,
    *,
    running: Callable[[int], bool],
    limits: tuple[float, float] | None = None,
) -> Benchmark:
    def base() -> Objects:
        found = [*_priorities(), *_nodes(nodes), *_department_queues(quota, department)]
        for i in range(jobs):
            if running(i):
                found += _job(f"job-{i}", f"queue-{i % 4}", i, node=f"node-{i % nodes}")
        return found

    def arriving() -> Objects:
        return [each for i in range(jobs) if not running(i) for each in _job(f"job-{i}", f"queue-{i % 4}", i)]

    return Benchmark(
        name=name,
        actions=actions,
        expect=expect,
        base=base,
        arriving=arriving,
        size=nodes,
        limits_ms=limits,
        family=name.partition("_")[0],
    )


def _always(i: int) -> bool:
    del i
    return True


def _never(i: int) -> bool:
    del i
    return False


def _even(i: int) -> bool:
    return i % 2 == 0


def _gangs() -> Benchmark:
    def arriving() -> Objects:
        return [each for i in range(100) for each in _job(f"job-{i}", f"queue-{i % 4}", i, pods=4)]

    return Benchmark(
        name="GangScheduling_MediumCluster",
        actions=("allocate",),
        size=50,
        family="GangScheduling",
        expect=Expectation(most_binds=800, most_evictions=0, most_pipelines=0, binds=400),
        base=lambda: [*_priorities(), *_nodes(50), *_department_queues(100, 200)],
        arriving=arriving,
    )


def _many() -> Benchmark:
    return Benchmark(
        name="ManyQueues_MediumCluster",
        actions=("allocate",),
        size=50,
        family="ManyQueues",
        expect=Expectation(most_binds=400, most_evictions=0, most_pipelines=0, binds=200),
        base=lambda: [*_priorities(), *_nodes(50), *_many_queues()],
        arriving=lambda: [each for i in range(200) for each in _job(f"job-{i}", f"queue-{i % 20}", i)],
    )


def _large_jobs(nodes: int, limits: tuple[float, float] | None = None) -> Benchmark:
    gpus = nodes * 8

    def base() -> Objects:
        queues = _under_default(
            a_queue("queue-0", parent="default", gpu=0, weight=0),
            a_queue("queue-1", parent="default", gpu=gpus, weight=0),
        )
        found = [*_priorities(), *_nodes(nodes), *queues]
        for i in range(gpus):
            found += _job(f"running-job-{i}", "queue-0", i, node=f"node-{i % nodes}")
        return found

    return Benchmark(
        name=f"ReclaimLargeJobs_{nodes}Node",
        actions=("reclaim",),
        size=nodes,
        family="ReclaimLargeJobs",
        expect=Expectation(
            most_binds=nodes * 4,
            most_evictions=nodes * 10,
            most_pipelines=nodes * 10,
            victims=nodes // 2 * 8,
            pipelined=nodes // 2,
        ),
        base=base,
        arriving=lambda: list(_job("very-large-job", "queue-1", gpus, pods=nodes // 2, gpus=8)),
        limits_ms=limits,
    )


def _single_jobs(
    nodes: int, *, min_runtime: str | None = None, limits: tuple[float, float] | None = None
) -> Benchmark:
    gpus = nodes * 8

    def base() -> Objects:
        queues = _under_default(
            a_queue("running-queue", parent="default", gpu=0, weight=0, reclaim_min_runtime=min_runtime),
            a_queue("pending-queue", parent="default", gpu=gpus, weight=0),
        )
        found = [*_priorities(), *_nodes(nodes), *queues]
        for i in range(gpus):
            found += _job(f"running-job-{i}", "running-queue", i, node=f"node-{i % nodes}")
        return found

    def arriving() -> Objects:
        return [each for i in range(gpus) for each in _job(f"pending-job-{i}", "pending-queue", gpus + i)]

    suffix = "WithMinRuntime" if min_runtime else ""
    return Benchmark(
        name=f"ReclaimManySingleGPUJobsFullCycle{suffix}_{nodes}Node",
        actions=ACTIONS,
        size=nodes,
        family="ManySingleGPUJobs" + suffix,
        limits_ms=limits,
        expect=Expectation(
            most_binds=0, most_evictions=gpus, most_pipelines=gpus, victims=gpus, pipelined=gpus
        ),
        base=base,
        arriving=arriving,
    )


def _scattered(nodes: int) -> Benchmark:
    """Small jobs, three on each node, in the way of gangs: each of their pods needs one of them moved."""
    gangs = nodes * 41 // 500

    def base() -> Objects:
        queue = a_queue("team", parent="default", gpu=nodes * 8, weight=0)
        found = [*_priorities(), *_nodes(nodes), *_under_default(queue)]
        for i in range(3 * nodes):
            found += _job(f"small-job-{i}", "team", i, node=f"node-{i // 3}")
        return found

    def arriving() -> Objects:
        return [
            each
            for i in range(gangs)
            for each in _job(f"large-gang-{i}", "team", 3 * nodes + i, pods=10, gpus=6)
        ]

    return Benchmark(
        name=f"ConsolidateScattered_{nodes}Node",
        actions=("consolidation",),
        size=nodes,
        family="ConsolidateScattered",
        expect=Expectation(
            most_binds=0,
            most_evictions=gangs * 10,
            most_pipelines=gangs * 20,
            victims=gangs * 10,
            pipelined=gangs * 20,
        ),
        base=base,
        arriving=arriving,
    )


def _unschedulable(
    nodes: int,
    *,
    name: str = "",
    racks: int = 0,
    quota: int | None = None,
    limits: tuple[float, float] | None = None,
    topology: bool = False,
    anti_affinity: bool = False,
) -> Benchmark:
    gpus = nodes * 8
    label = (lambda i: {RACK: f"rack-{i % racks}"}) if racks else None
    constraint = TopologyConstraint(topology="racks", required_topology_level=RACK) if topology else None
    spread = {"gang": "very-large-job"} if anti_affinity else None
    spec: dict[str, object] | None = None
    if anti_affinity:
        term = {"labelSelector": {"matchLabels": spread}, "topologyKey": RACK}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    def base() -> Objects:
        queues = _under_default(
            a_queue("queue-0", parent="default", gpu=gpus - 79 if quota is None else quota, weight=0),
            a_queue("queue-1", parent="default", gpu=80, weight=0),
        )
        found = [*_priorities(), *_nodes(nodes, label), *queues]
        if topology:
            levels = TopologySpec(levels=[TopologyLevel(node_label=RACK)])
            found.append((Kind.TOPOLOGY, Topology(metadata=ObjectMeta(name="racks"), spec=levels)))
        for i in range(gpus):
            found += _job(f"running-job-{i}", "queue-0", i, node=f"node-{i % nodes}")
        return found

    return Benchmark(
        name=f"ReclaimUnschedulableDistributedJob_{name or f'{nodes}Node'}",
        actions=("reclaim",),
        size=nodes,
        family="UnschedulableDistributedJob",
        limits_ms=limits,
        plugins=("podaffinity",) if anti_affinity else (),
        expect=Expectation(most_binds=0, most_evictions=0, most_pipelines=0, victims=0, pipelined=0),
        base=base,
        arriving=lambda: list(
            _job(
                "very-large-job",
                "queue-1",
                gpus,
                pods=10,
                gpus=8,
                topology=constraint,
                spec=spec,
                labels=spread,
            )
        ),
    )


def _missing_claims() -> Benchmark:
    def base() -> Objects:
        queues = _under_default(
            a_queue("test-cpu", parent="default", gpu=0, weight=0, cpu=500_000, priority=100),
            a_queue("reclaim-cpu", parent="default", gpu=0, weight=0, priority=210),
        )
        found: Objects = [*_priorities(), *queues]
        found += [(Kind.NODE, a_node(f"node-{i}", gpus=0, cpu="80", memory="20G")) for i in range(1500)]
        for i in range(7370):
            name, node = f"occupied-{i}", f"node-{i % 1500}"
            group = a_group(name, queue="test-cpu", created=NOW - 100_000 + i, started=NOW - 60)
            millis = 500 + 250 * (i % 19)
            found += [
                (Kind.POD_GROUP, group),
                (Kind.POD, a_pod(f"{name}-0", group=name, cpu=f"{millis}m", memory="1M", node=node)),
            ]
        return found

    def arriving() -> Objects:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "busybox-missing-pvc"}}]
        found: Objects = []
        for i in range(3):
            name = f"missing-pvc-job-{i}"
            pod = a_pod(f"{name}-0", group=name, cpu="500m", memory="1M", spec={"volumes": volumes})
            found += [(Kind.POD_GROUP, a_group(name, queue="reclaim-cpu", created=NOW + i)), (Kind.POD, pod)]
        return found

    return Benchmark(
        name="ReclaimWithMissingPVCJobs",
        actions=("reclaim",),
        size=1500,
        family="ReclaimWithMissingPVCJobs",
        expect=Expectation(most_binds=0, most_evictions=0, most_pipelines=0, victims=0, pipelined=0),
        base=base,
        arriving=arriving,
        limits_ms=(2, 300),
    )


def _fill(
    nodes: int = 5000, classes: int = 50, queues: int = 100, limits: tuple[float, float] | None = None
) -> Benchmark:
    pods = nodes * 8

    def base() -> Objects:
        found = [*_priorities(), *_nodes(nodes)]
        found += [(Kind.QUEUE, a_queue(f"dept-{i}", gpu=pods / 10, weight=1)) for i in range(10)]
        found += [
            (Kind.QUEUE, a_queue(f"queue-{i}", parent=f"dept-{i % 10}", gpu=pods / queues, weight=1))
            for i in range(queues)
        ]
        return found

    def arriving() -> Objects:
        found: Objects = []
        for i in range(pods):
            name = f"job-{i}"
            cpu = f"{1000 + i % classes}m"
            found.append(
                (Kind.POD_GROUP, a_group(name, queue=f"queue-{i % queues}", created=NOW - 100_000 + i))
            )
            found.append((Kind.POD, a_pod(f"{name}-0", group=name, gpus=1, cpu=cpu)))
        return found

    return Benchmark(
        name=f"Fill_{nodes}Node",
        actions=ACTIONS,
        size=nodes,
        family="Fill",
        limits_ms=limits,
        expect=Expectation(most_binds=pods, most_evictions=0, most_pipelines=0, binds=pods),
        base=base,
        arriving=arriving,
    )


def _idle(nodes: int = 5000, pods: int = 100_000, limits: tuple[float, float] | None = None) -> Benchmark:
    def base() -> Objects:
        found = [*_priorities(), *_nodes(nodes)]
        found += [(Kind.QUEUE, a_queue(f"dept-{i}", gpu=nodes, weight=1)) for i in range(10)]
        found += [
            (Kind.QUEUE, a_queue(f"queue-{i}", parent=f"dept-{i % 10}", gpu=nodes / 10, weight=1))
            for i in range(100)
        ]
        for i in range(pods // 4):
            name, queue = f"job-{i}", f"queue-{i % 100}"
            group: PodGroup = a_group(
                name, queue=queue, min_member=4, created=NOW - 100_000 + i, started=NOW - 60
            )
            found.append((Kind.POD_GROUP, group))
            for j in range(4):
                node = f"node-{(4 * i + j) % nodes}"
                gpus = 1 if (4 * i + j) // nodes < 8 else 0
                found.append((Kind.POD, a_pod(f"{name}-{j}", group=name, gpus=gpus, node=node)))
        return found

    return Benchmark(
        name=f"Idle_{nodes}Node",
        actions=ACTIONS,
        size=nodes,
        family="Idle",
        limits_ms=limits,
        expect=Expectation(most_binds=0, most_evictions=0, most_pipelines=0, victims=0, pipelined=0, binds=0),
        base=base,
        arriving=list,
    )


def benchmarks() -> dict[str, Benchmark]:
    """All clusters by name, in the order of the table."""
    found: list[Benchmark] = []
    for size, nodes, jobs, quota in (
        ("Small", 10, 50, 20),
        ("Medium", 50, 200, 100),
        ("Large", 100, 500, 200),
    ):
        limits = (8.0, 30.0) if size == "Large" else None
        found.append(
            _departments(
                f"AllocateAction_{size}Cluster",
                ("allocate",),
                nodes,
                jobs,
                quota,
                2 * quota,
                Expectation(most_binds=2 * jobs, most_evictions=0, most_pipelines=0, binds=jobs),
                running=_never,
                limits=limits,
            )
        )
    for action in ("reclaim", "preempt", "consolidation", "full"):
        for size, nodes, jobs, quota in (
            ("Small", 10, 50, 20),
            ("Medium", 50, 200, 100),
            ("Large", 100, 500, 200),
        ):
            if size == "Large" and action != "full":
                continue
            title = "FullSchedulingCycle" if action == "full" else f"{action.capitalize()}Action"
            limits = (
                (8.0, 30.0)
                if size == "Large"
                else (8.0, 25.0)
                if (action, size) == ("consolidation", "Medium")
                else None
            )
            expect = Expectation(
                most_binds=2 * jobs,
                most_evictions=jobs,
                most_pipelines=0 if action == "reclaim" else 2 * jobs,
                binds=jobs // 2 if action == "full" else None,
            )
            actions = ACTIONS if action == "full" else (action,)
            running = _always if action == "reclaim" else _even
            found.append(
                _departments(
                    f"{title}_{size}Cluster",
                    actions,
                    nodes,
                    jobs,
                    quota,
                    2 * quota,
                    expect,
                    running=running,
                    limits=limits,
                )
            )
    found += [_many(), _gangs()]
    large = {100: (10.0, 40.0), 500: (60.0, 200.0), 1000: (120.0, 400.0)}
    found += [_large_jobs(nodes, large.get(nodes)) for nodes in (10, 50, 100, 200, 500, 1000)]
    single = {100: (150.0, 200.0), 500: (1000.0, 1200.0)}
    found += [_single_jobs(nodes, limits=single.get(nodes)) for nodes in (10, 50, 100, 200, 500)]
    found.append(_single_jobs(500, min_runtime="30s"))
    found += [_scattered(nodes) for nodes in (100, 500, 1000)]
    no_room = {100: (10.0, 40.0), 500: (30.0, 200.0), 1000: (60.0, 400.0)}
    found += [_unschedulable(nodes, limits=no_room.get(nodes)) for nodes in (10, 50, 100)]
    found.append(
        _unschedulable(
            100, name="AntiAffinity100Node", racks=9, quota=720, anti_affinity=True, limits=(20, 50)
        )
    )
    found.append(
        _unschedulable(100, name="Topology100Node", racks=12, quota=720, topology=True, limits=(20, 50))
    )
    found += [_unschedulable(nodes, limits=no_room.get(nodes)) for nodes in (200, 500, 1000)]
    found += [_missing_claims(), _fill(500), _fill(1500), _fill(5000, limits=(2000, 3500))]
    found += [_idle(1000, 20_000), _idle(2500, 50_000), _idle(limits=(20, 3000))]
    return {each.name: each for each in found}


__all__ = ["NOW", "Benchmark", "Expectation", "Objects", "benchmarks"]
