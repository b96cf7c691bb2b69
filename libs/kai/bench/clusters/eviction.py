"""Clusters in which jobs wait for what others hold."""

from __future__ import annotations

from typing import Final

from kai.bench.clusters.parts import (
    NOW,
    Benchmark,
    Expectation,
    Objects,
    a_job,
    priorities,
    some_nodes,
    under_default,
)
from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.config import ACTIONS
from kai.model.objects import ObjectMeta, Topology, TopologyConstraint, TopologyLevel, TopologySpec
from kai.snapshot.state import Kind

RACK: Final = "benchmark.kai.scheduler/rack"


def large_jobs(nodes: int, limits: tuple[float, float] | None = None) -> Benchmark:
    """One gang of large pods takes half of a cluster that is full of small jobs."""
    gpus = nodes * 8

    def base() -> Objects:
        queues = under_default(
            a_queue("queue-0", parent="default", gpu=0, weight=0),
            a_queue("queue-1", parent="default", gpu=gpus, weight=0),
        )
        found = [*priorities(), *some_nodes(nodes), *queues]
        for i in range(gpus):
            found += a_job(f"running-job-{i}", "queue-0", i, node=f"node-{i % nodes}")
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
        arriving=lambda: list(a_job("very-large-job", "queue-1", gpus, pods=nodes // 2, gpus=8)),
        limits_ms=limits,
    )


def single_jobs(
    nodes: int, *, min_runtime: str | None = None, limits: tuple[float, float] | None = None
) -> Benchmark:
    """As many small jobs wait as run, and their queue deserves everything."""
    gpus = nodes * 8

    def base() -> Objects:
        queues = under_default(
            a_queue("running-queue", parent="default", gpu=0, weight=0, reclaim_min_runtime=min_runtime),
            a_queue("pending-queue", parent="default", gpu=gpus, weight=0),
        )
        found = [*priorities(), *some_nodes(nodes), *queues]
        for i in range(gpus):
            found += a_job(f"running-job-{i}", "running-queue", i, node=f"node-{i % nodes}")
        return found

    def arriving() -> Objects:
        return [each for i in range(gpus) for each in a_job(f"pending-job-{i}", "pending-queue", gpus + i)]

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


def scattered(nodes: int) -> Benchmark:
    """Small jobs, three on each node, in the way of gangs: each of their pods needs one of them moved."""
    gangs = nodes * 41 // 500

    def base() -> Objects:
        queue = a_queue("team", parent="default", gpu=nodes * 8, weight=0)
        found = [*priorities(), *some_nodes(nodes), *under_default(queue)]
        for i in range(3 * nodes):
            found += a_job(f"small-job-{i}", "team", i, node=f"node-{i // 3}")
        return found

    def arriving() -> Objects:
        return [
            each
            for i in range(gangs)
            for each in a_job(f"large-gang-{i}", "team", 3 * nodes + i, pods=10, gpus=6)
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


def unschedulable(
    nodes: int,
    *,
    name: str = "",
    racks: int = 0,
    quota: int | None = None,
    limits: tuple[float, float] | None = None,
    topology: bool = False,
    anti_affinity: bool = False,
) -> Benchmark:
    """A gang for which there is one GPU too few, or racks that cannot take it."""
    gpus = nodes * 8
    label = (lambda i: {RACK: f"rack-{i % racks}"}) if racks else None
    constraint = TopologyConstraint(topology="racks", required_topology_level=RACK) if topology else None
    spread = {"gang": "very-large-job"} if anti_affinity else None
    spec: dict[str, object] | None = None
    if anti_affinity:
        term = {"labelSelector": {"matchLabels": spread}, "topologyKey": RACK}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    def base() -> Objects:
        queues = under_default(
            a_queue("queue-0", parent="default", gpu=gpus - 79 if quota is None else quota, weight=0),
            a_queue("queue-1", parent="default", gpu=80, weight=0),
        )
        found = [*priorities(), *some_nodes(nodes, label), *queues]
        if topology:
            levels = TopologySpec(levels=[TopologyLevel(node_label=RACK)])
            found.append((Kind.TOPOLOGY, Topology(metadata=ObjectMeta(name="racks"), spec=levels)))
        for i in range(gpus):
            found += a_job(f"running-job-{i}", "queue-0", i, node=f"node-{i % nodes}")
        return found

    return Benchmark(
        name=f"ReclaimUnschedulableDistributedJob_{name or f'{nodes}Node'}",
        actions=("reclaim",),
        size=nodes,
        family="UnschedulableDistributedJob",
        limits_ms=limits,
        expect=Expectation(most_binds=0, most_evictions=0, most_pipelines=0, victims=0, pipelined=0),
        base=base,
        arriving=lambda: list(
            a_job(
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


def missing_claims() -> Benchmark:
    """Jobs that wait for a claim that does not exist, in a cluster without GPUs."""

    def base() -> Objects:
        queues = under_default(
            a_queue("test-cpu", parent="default", gpu=0, weight=0, cpu=500_000, priority=100),
            a_queue("reclaim-cpu", parent="default", gpu=0, weight=0, priority=210),
        )
        found: Objects = [*priorities(), *queues]
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
