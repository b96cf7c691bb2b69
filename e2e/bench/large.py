"""How far the engine goes on one machine: ``python -m e2e.bench.large [--nodes 50000]``.

*full*: nodes of eight GPUs hold eight pods of one each and twelve without GPUs, in gangs of four. The state
is made, and asked for its first cycle, for one in which nothing happens, for one with a hundred gangs that
find room, and for one with a gang that takes four whole nodes back. *empty*: as many pods of one GPU come at
once as there are GPUs. Each has to come out as it should: nobody is evicted for nothing, and who fits is
bound, once. A queue has to own four nodes: 400 of them is the least.

Times are of one thread's work (seconds), memory is what the process holds.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine, SchedulerConfig
from kai.model.decisions import CycleResult
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState

NOW: Final = 1_900_000_000.0
GPUS: Final = 8
PODS_A_NODE: Final = 20
GANG: Final = 4
DEPARTMENTS: Final = 10
QUEUES: Final = 100
#: Nothing runs in the last queues at first, so they are owed what others hold beyond their share.
POOR: Final = 10
NEW_GANGS: Final = 100
_PAGE_BYTES: Final = 4096
_MIB: Final = 1 << 20

Objects = Iterator[tuple[Kind, Any]]


@dataclass(slots=True)
class Report:
    """What was measured, as rows of a table, and what of it is wrong."""

    rows: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self, name: str, seconds: float, what: str = "") -> None:
        """A measurement."""
        self.rows.append(f"| {name} | {seconds:.3f} | {memory_mib():,} | {what} |")

    def expect(self, name: str, *, found: int, wanted: int) -> None:
        """It came out as it should, or did not."""
        if found != wanted:
            self.wrong.append(f"{name}: {found} instead of {wanted}")


def memory_mib() -> int:
    """What the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES // _MIB


def a_cluster(nodes: int) -> Objects:
    """Empty nodes, and queues that own all of them."""
    yield from ((Kind.PRIORITY_CLASS, each) for each in usual_priorities())
    for number in range(nodes):
        yield Kind.NODE, a_node(f"node-{number}", gpus=GPUS, cpu="128", memory="1000G")
    for number in range(DEPARTMENTS):
        yield Kind.QUEUE, a_queue(f"dept-{number}", gpu=nodes * GPUS / DEPARTMENTS)
    for number in range(QUEUES):
        parent = f"dept-{number % DEPARTMENTS}"
        yield Kind.QUEUE, a_queue(f"queue-{number}", parent=parent, gpu=nodes * GPUS / QUEUES)


def running(nodes: int) -> Objects:
    """Gangs that run, in layers of one pod a node: those of the first eight have a GPU."""
    for number in range(nodes * PODS_A_NODE // GANG):
        name, queue = f"job-{number}", f"queue-{number % (QUEUES - POOR)}"
        created = NOW - 1_000_000 + number
        yield (
            Kind.POD_GROUP,
            a_group(name, queue=queue, min_member=GANG, created=created, started=NOW - 60),
        )
        for pod in range(GANG):
            layer, node = divmod(GANG * number + pod, nodes)
            there = a_pod(f"{name}-{pod}", group=name, gpus=int(layer < GPUS), node=f"node-{node}")
            yield Kind.POD, there


def a_gang(name: str, queue: str, gpus: int) -> Objects:
    """One that comes."""
    yield Kind.POD_GROUP, a_group(name, queue=queue, min_member=GANG, created=NOW)
    for pod in range(GANG):
        yield Kind.POD, a_pod(f"{name}-{pod}", group=name, gpus=gpus)


def loaded(objects: Objects) -> tuple[ClusterState, float]:
    """A state, and how long its making took; how long the objects took is left out."""
    known = list(objects)
    gc.collect()
    gc.freeze()
    state, began = ClusterState(), time.process_time()
    state.load(known)
    return state, time.process_time() - began


def cycled(engine: Engine, state: ClusterState, now: float) -> tuple[CycleResult, float]:
    """A cycle, and how long it took."""
    began = time.process_time()
    result = engine.run(state, now)
    return result, time.process_time() - began


def full(nodes: int, report: Report) -> None:
    """A cluster whose GPUs are all held."""
    state, seconds = loaded(_all(a_cluster(nodes), running(nodes)))
    report.row("the state is made", seconds, f"{nodes:,} nodes, {len(state.tasks):,} pods")
    engine = Engine(SchedulerConfig())
    for name, at in (("its first cycle", 0.0), ("a cycle in which nothing happens", 1.0)):
        result, seconds = cycled(engine, state, NOW + at)
        report.row(name, seconds)
        report.expect(f"{name}: decisions", found=len(result.binds) + len(result.evictions), wanted=0)
    for number in range(NEW_GANGS):
        _apply(state, a_gang(f"new-{number}", f"queue-{number}", 0))
    result, seconds = cycled(engine, state, NOW + 2)
    report.row(f"{NEW_GANGS} gangs find room", seconds, f"{len(result.binds)} binds")
    report.expect("binds of gangs", found=len(result.binds), wanted=NEW_GANGS * GANG)
    _apply(state, a_gang("owed", f"queue-{QUEUES - 1}", GPUS))
    result, seconds = cycled(engine, state, NOW + 3)
    report.row("a gang takes four nodes back", seconds, f"{len(result.evictions)} evictions")
    places = sum(each.pod.pod_group == "default/owed" for each in result.nominations)
    report.expect("pods of the gang with a place", found=places, wanted=GANG)


def empty(nodes: int, report: Report) -> None:
    """As many pods come as there are GPUs."""
    pods = nodes * GPUS

    def coming() -> Objects:
        for number in range(pods):
            name = f"job-{number}"
            yield Kind.POD_GROUP, a_group(name, queue=f"queue-{number % QUEUES}", created=NOW)
            yield Kind.POD, a_pod(name, group=name, gpus=1)

    state, _ = loaded(_all(a_cluster(nodes), coming()))
    result, seconds = cycled(Engine(SchedulerConfig()), state, NOW)
    report.row(f"{pods:,} pods come at once", seconds, f"{len(result.binds):,} binds")
    report.expect("binds", found=len({bind.pod.uid for bind in result.binds}), wanted=pods)


def _all(*parts: Objects) -> Objects:
    for part in parts:
        yield from part


def _apply(state: ClusterState, objects: Objects) -> None:
    for kind, obj in objects:
        state.apply(kind, obj)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and say what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench.large", description="How far the engine goes on one machine."
    )
    parser.add_argument("--nodes", type=int, default=50_000, help="default: 50,000, with 1,000,000 pods")
    nodes = parser.parse_args(arguments).nodes
    report = Report()
    full(nodes, report)
    gc.unfreeze()
    gc.collect()
    empty(nodes, report)
    print("| | seconds of work | MiB | |\n|---|---|---|---|")  # noqa: T201
    for row in report.rows:
        print(row)  # noqa: T201
    for text in report.wrong:
        print(text, file=sys.stderr)  # noqa: T201
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
