"""Clusters in which jobs wait for what is free, or for nothing at all."""

from __future__ import annotations

from collections.abc import Callable

from kai.bench.clusters.parts import (
    NOW,
    Benchmark,
    Expectation,
    Objects,
    a_job,
    priorities,
    some_nodes,
)
from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.config import ACTIONS
from kai.model.objects import PodGroup, Queue
from kai.snapshot.state import Kind


def _department_queues(quota: float, department: float) -> Objects:
    queues: list[Queue] = [
        a_queue(f"dept-{letter}", gpu=department, weight=department, created=NOW) for letter in "ab"
    ]
    queues += [
        a_queue(f"queue-{i}", parent="dept-a" if i < 2 else "dept-b", gpu=quota, weight=1, created=NOW)
        for i in range(4)
    ]
    return [(Kind.QUEUE, queue) for queue in queues]


def _twenty_queues() -> Objects:
    queues = [a_queue(f"dept-{i}", gpu=80, weight=80, created=NOW) for i in range(5)]
    queues += [
        a_queue(f"queue-{i}", parent=f"dept-{i % 5}", gpu=20, weight=1, created=NOW) for i in range(20)
    ]
    return [(Kind.QUEUE, queue) for queue in queues]


def departments(
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
    """Jobs of one GPU in four queues of two departments, some of them running."""

    def base() -> Objects:
        found = [*priorities(), *some_nodes(nodes), *_department_queues(quota, department)]
        for i in range(jobs):
            if running(i):
                found += a_job(f"job-{i}", f"queue-{i % 4}", i, node=f"node-{i % nodes}")
        return found

    def arriving() -> Objects:
        return [
            each for i in range(jobs) if not running(i) for each in a_job(f"job-{i}", f"queue-{i % 4}", i)
        ]

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


def gangs() -> Benchmark:
    """Gangs of four."""

    def arriving() -> Objects:
        return [each for i in range(100) for each in a_job(f"job-{i}", f"queue-{i % 4}", i, pods=4)]

    return Benchmark(
        name="GangScheduling_MediumCluster",
        actions=("allocate",),
        size=50,
        family="GangScheduling",
        expect=Expectation(most_binds=800, most_evictions=0, most_pipelines=0, binds=400),
        base=lambda: [*priorities(), *some_nodes(50), *_department_queues(100, 200)],
        arriving=arriving,
    )


def many_queues() -> Benchmark:
    """Jobs in twenty queues of five departments."""
    return Benchmark(
        name="ManyQueues_MediumCluster",
        actions=("allocate",),
        size=50,
        family="ManyQueues",
        expect=Expectation(most_binds=400, most_evictions=0, most_pipelines=0, binds=200),
        base=lambda: [*priorities(), *some_nodes(50), *_twenty_queues()],
        arriving=lambda: [each for i in range(200) for each in a_job(f"job-{i}", f"queue-{i % 20}", i)],
    )


def fill(
    nodes: int = 5000, classes: int = 50, queues: int = 100, limits: tuple[float, float] | None = None
) -> Benchmark:
    """An empty cluster, and one-GPU jobs of many classes and queues for all of it."""
    pods = nodes * 8

    def base() -> Objects:
        found = [*priorities(), *some_nodes(nodes)]
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


def idle(nodes: int = 5000, pods: int = 100_000, limits: tuple[float, float] | None = None) -> Benchmark:
    """A large cluster in which gangs of four run and nobody waits."""

    def base() -> Objects:
        found = [*priorities(), *some_nodes(nodes)]
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


def waiting(nodes: int = 500, pods: int = 20_000, limits: tuple[float, float] | None = None) -> Benchmark:
    """A full cluster, whose queues hold what they deserve and have long lines; one node more comes.

    In the lines are jobs of one, two and four GPUs in turn, so that none is like the one before it.
    """
    queues = 100

    def base() -> Objects:
        found = [*priorities(), *some_nodes(nodes)]
        found += [(Kind.QUEUE, a_queue(f"dept-{i}", gpu=nodes * 8 / 10, weight=1)) for i in range(10)]
        found += [
            (Kind.QUEUE, a_queue(f"queue-{i}", parent=f"dept-{i % 10}", gpu=nodes * 8 / queues, weight=1))
            for i in range(queues)
        ]
        for i in range(nodes * 8):
            found += a_job(f"runs-{i}", f"queue-{i % queues}", i, node=f"node-{i // 8}")
        for i in range(pods):
            gpus = (1, 2, 4)[i // queues % 3]
            found += a_job(f"waits-{i}", f"queue-{i % queues}", nodes * 8 + i, gpus=gpus)
        return found

    return Benchmark(
        name=f"Waiting_{nodes}Node",
        actions=ACTIONS,
        size=nodes,
        family="Waiting",
        limits_ms=limits,
        expect=Expectation(most_binds=8, most_evictions=0, most_pipelines=0, victims=0, binds=8),
        base=base,
        arriving=lambda: [(Kind.NODE, a_node("one-more"))],
    )
