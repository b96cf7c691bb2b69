"""Whether a cycle decided rightly: what was expected, and that every placement and eviction is possible."""

from __future__ import annotations

from kai.bench.clusters import Benchmark
from kai.model.decisions import CycleResult
from kai.snapshot.state import ClusterState


def wrong(benchmark: Benchmark, result: CycleResult, state: ClusterState) -> list[str]:
    """What is wrong with the decisions; empty if nothing is."""
    expect = benchmark.expect
    binds, evictions, pipelines = len(result.binds), len(result.evictions), len(result.nominations)
    found: list[str] = []
    for what, made, most, exact in (
        ("binds", binds, expect.most_binds, expect.binds),
        ("evictions", evictions, expect.most_evictions, expect.victims),
        ("pipelined pods", pipelines, expect.most_pipelines, expect.pipelined),
    ):
        if made > most:
            found.append(f"{made} {what}, at most {most} are allowed")
        if exact is not None and made != exact:
            found.append(f"{made} {what} instead of {exact}")
    found += _impossible(result, state)
    state.check()
    return found


def _impossible(result: CycleResult, state: ClusterState) -> list[str]:
    found: list[str] = []
    if len({bind.pod.uid for bind in result.binds}) != len(result.binds):
        found.append("a pod is bound twice")
    if len({each.pod.uid for each in result.evictions}) != len(result.evictions):
        found.append("a pod is evicted twice")
    for bind in result.binds:
        task = state.tasks[bind.pod.uid]
        if task.node is None or task.node.name != bind.node:
            found.append(f"{task.key} is not charged where it is bound")
    for each in result.evictions:
        job = state.tasks[each.pod.uid].job
        if job is None or not (job.preemptible or job.semi_preemptible):
            found.append(f"{each.pod.name} must not be evicted")
    table = state.nodes
    if len(table) and (table.idle < 0).any():
        found.append("a node holds more than it has")
    return found
