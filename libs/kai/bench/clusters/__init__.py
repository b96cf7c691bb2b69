"""The benchmark clusters: objects, actions, and what must come out."""

from __future__ import annotations

from kai.bench.clusters.eviction import large_jobs, missing_claims, scattered, single_jobs, unschedulable
from kai.bench.clusters.parts import NOW, Benchmark, Expectation, Objects
from kai.bench.clusters.placement import departments, fill, gangs, idle, many_queues, waiting
from kai.config import ACTIONS


def _all(_: int) -> bool:
    return True


def _every_other(number: int) -> bool:
    return number % 2 == 0


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
            departments(
                f"AllocateAction_{size}Cluster",
                ("allocate",),
                nodes,
                jobs,
                quota,
                2 * quota,
                Expectation(most_binds=2 * jobs, most_evictions=0, most_pipelines=0, binds=jobs),
                running=lambda i: False,
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
            running = _all if action == "reclaim" else _every_other
            found.append(
                departments(
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
    found += [many_queues(), gangs()]
    large = {100: (10.0, 40.0), 500: (60.0, 200.0), 1000: (120.0, 400.0)}
    found += [large_jobs(nodes, large.get(nodes)) for nodes in (10, 50, 100, 200, 500, 1000)]
    single = {100: (150.0, 200.0), 500: (1000.0, 1200.0)}
    found += [single_jobs(nodes, limits=single.get(nodes)) for nodes in (10, 50, 100, 200, 500)]
    found.append(single_jobs(500, min_runtime="30s"))
    found += [scattered(nodes) for nodes in (100, 500, 1000)]
    no_room = {100: (10.0, 40.0), 500: (30.0, 200.0), 1000: (60.0, 400.0)}
    found += [unschedulable(nodes, limits=no_room.get(nodes)) for nodes in (10, 50, 100)]
    found.append(
        unschedulable(
            100, name="AntiAffinity100Node", racks=9, quota=720, anti_affinity=True, limits=(20, 50)
        )
    )
    found.append(
        unschedulable(100, name="Topology100Node", racks=12, quota=720, topology=True, limits=(20, 50))
    )
    found += [unschedulable(nodes, limits=no_room.get(nodes)) for nodes in (200, 500, 1000)]
    found += [missing_claims(), fill(500), fill(1500), fill(5000, limits=(2000, 3500))]
    found += [idle(1000, 20_000), idle(2500, 50_000), idle(limits=(20, 3000))]
    found.append(waiting())
    return {each.name: each for each in found}


__all__ = ["NOW", "Benchmark", "Expectation", "Objects", "benchmarks"]
