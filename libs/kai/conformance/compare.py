"""What a session shows, against what a scenario expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kai.engine.framework.session import Session
from kai.engine.plugins.numa import NumaZones
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import GpuKind
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import ACTIVE_ALLOCATED

_STARTED = ("Running", "Binding", "Bound", "Allocated")
_NEAR = 1e-6


@dataclass(slots=True)
class Differences:
    """Lines of text, each saying where, what was expected and what came out."""

    lines: list[str] = field(default_factory=list)
    place: str = ""

    def within(self, place: str) -> Differences:
        """The same list, from a place further in."""
        return Differences(self.lines, f"{self.place}{place}: ")

    def expect(self, what: str, expected: Any, actual: Any) -> None:
        """Add a line unless both are equal."""
        near = isinstance(expected, float | int) and isinstance(actual, float | int)
        if expected != actual and not (near and abs(float(expected) - float(actual)) < _NEAR):
            self.lines.append(f"{self.place}{what}: expected {expected}, got {actual}")


def compare(session: Session, scenario: Mapping[str, Any], now: float, found: Differences) -> None:
    """Compare everything that is listed; what is not listed is not checked."""
    expected = scenario["expected"]
    tasks = sorted(session.state.tasks.values(), key=lambda task: task.key)
    by_job: dict[str, list[Task]] = {}
    for task in tasks:
        if task.job is not None:
            by_job.setdefault(task.job.name, []).append(task)
    for name, wanted in expected.get("jobs", {}).items():
        _compare_tasks(session, f"job {name}", wanted, by_job.get(name, []), now, found)
    by_name = {task.name: task for task in tasks}
    for name, wanted in expected.get("tasks", {}).items():
        chosen = [by_name[name]] if name in by_name else []
        _compare_tasks(session, f"pod {name}", wanted, chosen, now, found)
    for name, wanted in expected.get("nodes", {}).items():
        _compare_node(session, name, wanted, found)
    for key, wanted in expected.get("subgroups", {}).items():
        _compare_subgroup(session, key, wanted, tasks, found)
    if distinct := expected.get("subgroup_domains_distinct"):
        _compare_distinct(session, distinct, tasks, found)


def compare_calls(session: Session, expected: Mapping[str, Any], found: Differences) -> None:
    """Binds, evictions and pipelined pods are at most as many as expected."""
    decided = session.decisions
    for name, made in (
        ("binds", decided.binds),
        ("evictions", decided.evictions),
        ("pipelines", decided.nominations),
    ):
        most = expected.get(name)
        if most is not None and len(made) > most:
            who = ", ".join(each.pod.name for each in made)
            found.lines.append(f"{found.place}{name}: expected at most {most}, got {len(made)} ({who})")


def _compare_tasks(
    session: Session,
    what: str,
    wanted: Mapping[str, Any],
    tasks: Sequence[Task],
    now: float,
    found: Differences,
) -> None:
    status = wanted.get("status")
    for task in tasks:
        if status is not None:
            found.expect(f"{what}: status of {task.name}", status, task.status.label)
        node = task.pipelined_node or task.node
        if wanted.get("node") is not None:
            found.expect(
                f"{what}: node of {task.name}", wanted["node"], node.name if node is not None else None
            )
        if wanted.get("numa_zones") is not None:
            found.expect(
                f"{what}: zones of {task.name}", sorted(wanted["numa_zones"]), zones_of(session, task)
            )
    if not tasks:
        return
    _compare_amounts(what, wanted, tasks, found)
    if status in _STARTED:
        job = tasks[0].job
        if job is not None and not job.last_start:
            found.lines.append(f"{found.place}{what}: has no last start time")
        oldest = wanted.get("last_start_older_than_s")
        if oldest is not None and job is not None and now - job.last_start < oldest:
            found.lines.append(f"{found.place}{what}: last start is less than {oldest} s ago")


def _compare_amounts(what: str, wanted: Mapping[str, Any], tasks: Sequence[Task], found: Differences) -> None:
    if wanted.get("gpus_required") is not None:
        asked = sum(_gpus_asked(task) for task in tasks)
        found.expect(f"{what}: GPUs required", round(wanted["gpus_required"], 2), round(asked, 2))
    if wanted.get("gpus_accepted") is not None:
        held = sum(_gpus_held(task) for task in tasks)
        found.expect(f"{what}: GPUs accepted", round(wanted["gpus_accepted"], 2), round(held, 2))
    if wanted.get("milli_cpu_required") is not None:
        found.expect(f"{what}: CPU", wanted["milli_cpu_required"], sum(task.cls.cpu_millis for task in tasks))
    if wanted.get("memory_required") is not None:
        found.expect(
            f"{what}: memory", wanted["memory_required"], sum(task.cls.memory_bytes for task in tasks)
        )


def _gpus_asked(task: Task) -> float:
    cls = task.cls
    if cls.kind is GpuKind.WHOLE:
        return float(cls.devices)
    return cls.devices * cls.portion_centi / GPU_CENTI if cls.kind is GpuKind.FRACTION else 0.0


def _gpus_held(task: Task) -> float:
    cls, node = task.cls, task.pipelined_node or task.node
    if not ACTIVE_ALLOCATED[task.status] or node is None:
        return 0.0
    if cls.kind is GpuKind.WHOLE:
        return float(cls.devices)
    return cls.quota_centi(node.gpu_memory_mib) / GPU_CENTI if cls.shared else 0.0


def _compare_node(session: Session, name: str, wanted: Mapping[str, Any], found: Differences) -> None:
    node = session.nodes.by_name[name]
    if wanted.get("idle_gpus") is not None:
        found.expect(f"node {name}: idle GPUs", wanted["idle_gpus"], session.nodes.cells_idle[node.row, GPU])
    if wanted.get("releasing_gpus") is not None:
        found.expect(
            f"node {name}: releasing GPUs",
            wanted["releasing_gpus"],
            session.nodes.cells_releasing[node.row, GPU],
        )
    for zone, amounts in (wanted.get("numa_zones_available") or {}).items():
        for resource, amount in amounts.items():
            numa = session.plugins.of(NumaZones)
            actual = numa.available(name, zone=int(zone), resource=resource) if numa is not None else None
            found.expect(f"node {name}: zone {zone}: {resource}", amount, actual)


def zones_of(session: Session, task: Task) -> list[int]:
    """Zones in which a pod was placed."""
    numa = session.plugins.of(NumaZones)
    return sorted(numa.zones_of(task)) if numa is not None else []


def _nodes_of(tasks: Sequence[Task], job: str, subgroup: str) -> list[Node]:
    found: list[Node] = []
    for task in tasks:
        node = task.pipelined_node or task.node
        if node is None or task.job is None or task.job.name != job or task.pod_set is None:
            continue
        if task.pod_set.name == subgroup or not subgroup:
            found.append(node)
    return found


def _compare_subgroup(
    session: Session, key: str, wanted: Mapping[str, Any], tasks: Sequence[Task], found: Differences
) -> None:
    del session
    job, _, subgroup = key.partition("/")
    nodes = _nodes_of(tasks, job, subgroup)
    if wanted.get("node_set") is not None:
        found.expect(
            f"subgroup {key}: nodes", sorted(wanted["node_set"]), sorted({node.name for node in nodes})
        )
    for label, counts in (wanted.get("label_counts") or {}).items():
        actual: dict[str, int] = {}
        for node in nodes:
            value = node.object.labels.get(label, "")
            actual[value] = actual.get(value, 0) + 1
        found.expect(f"subgroup {key}: pods by {label}", dict(counts), actual)
    if label := wanted.get("single_domain"):
        domains = {node.object.labels.get(label, "") for node in nodes}
        found.expect(f"subgroup {key}: domains of {label}", 1, len(domains))


def _compare_distinct(
    session: Session, wanted: Mapping[str, Any], tasks: Sequence[Task], found: Differences
) -> None:
    del session
    label = wanted.get("label", "")
    domains: list[frozenset[str]] = []
    for key in wanted.get("subgroups", ()):
        job, _, subgroup = key.partition("/")
        domains.append(
            frozenset(node.object.labels.get(label, "") for node in _nodes_of(tasks, job, subgroup))
        )
    found.expect(f"domains of {label} by subgroup", len(domains), len(set(domains)))
