"""How fast a cluster lives on by itself: ``python -m e2e.bench.simulate [--only week|what-if]``.

*week*: pods of one to eight GPUs come over a week, run for hours and go, and all of it is simulated. Every
pod has to have run as long as it was to run.

*what-if*: the GPUs of a cluster are held by pods of one, others without GPUs run beside them, and one of a
hundred pods waits. It is asked what would follow if a part of the quota went from one queue to the other, and
if a node were drained; as many pods have to go as were moved, or were there. Loading is told apart.

Times are of one thread's work (seconds), so that others on the machine count little.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine, SchedulerConfig
from kai.simulate.changes import AddWorkload, Bound, Change, DrainNode, SetBounds
from kai.simulate.course import Course, Happened
from kai.simulate.journal import journal
from kai.simulate.what_if import ask
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState

NOW: Final = 1_900_000_000.0
WEEK_SECONDS: Final = 7 * 86400.0
GPUS: Final = 8
#: What most jobs of a shared cluster ask for, and how often.
SIZES: Final = (1, 1, 1, 1, 2, 2, 4, 8)
#: A pod runs so long on average: 10,000 hold two fifths of 1,000 nodes; with three times that, all.
HOURS: Final = 20.0
QUEUES: Final = ("red", "blue")


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, what came of it, and what of it is wrong."""

    name: str
    seconds: float
    what: str
    wrong: tuple[str, ...] = ()

    def row(self) -> str:
        """As a row of a table in Markdown."""
        return f"| {self.name} | {self.seconds:.2f} | {self.what} |"


def a_cluster(nodes: int) -> ClusterState:
    """Empty nodes, and two queues that own half of them each."""
    state = ClusterState()
    objects: list[tuple[Kind, object]] = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
    objects += [
        (Kind.NODE, a_node(f"node-{number}", gpus=GPUS, cpu="128", memory="1000G")) for number in range(nodes)
    ]
    objects.append((Kind.QUEUE, a_queue("top")))
    half = nodes * GPUS / len(QUEUES)
    objects += [(Kind.QUEUE, a_queue(name, parent="top", gpu=half)) for name in QUEUES]
    state.load(objects)
    return state


# --- a week ------------------------------------------------------------------------------------------
def week(nodes: int, pods: int, *, hours: float = HOURS, seed: int = 1) -> Measured:
    """A week of arrivals."""
    rng = random.Random(seed)
    lasting = {f"job-{number}": rng.expovariate(1 / (hours * 3600)) + 60 for number in range(pods)}
    state = a_cluster(nodes)

    def really(job: Job, ran: float, rng: random.Random) -> float:
        del ran, rng
        return lasting[job.name]

    with journal(state) as opened:
        course = Course(opened, SchedulerConfig(), now=NOW, runtimes=really)
        for name in lasting:
            at = NOW + rng.uniform(0, WEEK_SECONDS)
            course.plan(at, [_workload(name, rng.choice(QUEUES), rng.choice(SIZES), at)])
        began, fullest = time.process_time(), 0
        for _ in course.moments(float("inf")):
            fullest = max(fullest, *(queue.allocated.gpu_centi for queue in state.queue_rows if queue.exists))
        seconds = time.process_time() - began
        return Measured(
            f"a week, {nodes} nodes, {pods} pods of {hours:g} h",
            seconds,
            f"{course.cycles} cycles, {len(course.events)} events, at most "
            f"{fullest / nodes / GPUS:.0f} % of the GPUs held",
            tuple(_wrong(course, lasting)),
        )


def _workload(name: str, queue: str, gpus: int, at: float) -> AddWorkload:
    group = a_group(name, queue=queue, created=at)
    return AddWorkload(groups=[group], pods=[a_pod(name, group=name, gpus=gpus, created=at)])


def _wrong(course: Course, expected: dict[str, float]) -> list[str]:
    """Whoever came has run as long as it was to run, once; and nobody is left."""
    ended = [event for event in course.events if event.what is Happened.ENDED]
    began = {event.pod: event.at for event in course.events if event.what is Happened.STARTED}
    found = [] if len(ended) == len(expected) else [f"{len(ended)} of {len(expected)} pods ended"]
    for event in ended:
        ran, wanted = event.at - began[event.pod], expected[event.group.partition("/")[2]]
        if abs(ran - wanted) > 1e-3:
            found.append(f"{event.pod} ran {ran:.0f} s instead of {wanted:.0f}")
    rows = course.state.queue_rows
    held = [f"queue {row.name} holds something" for row in rows if any(row.allocated.amounts())]
    return found + held


# --- what if -----------------------------------------------------------------------------------------
def what_if(nodes: int, pods: int) -> list[Measured]:
    """Questions to a full cluster in which others wait."""
    began = time.process_time()
    state = a_cluster(nodes)
    objects: list[tuple[Kind, object]] = []
    with_gpu = nodes * GPUS + pods // 100  # of these the second queue has those more, and waits
    for number in range(pods):
        name, queue = f"job-{number}", QUEUES[number // 50 % len(QUEUES)]
        gpus = (number + 1) * with_gpu // pods - number * with_gpu // pods
        objects.append((Kind.POD_GROUP, a_group(name, queue=queue, created=NOW)))
        objects.append((Kind.POD, a_pod(name, group=name, created=NOW, gpus=gpus, cpu="1")))
    state.load(objects)
    result = Engine(SchedulerConfig()).run(state, NOW)
    for bind in result.binds:
        state.bind_done(bind.pod.uid)
    loaded = time.process_time() - began
    found = [Measured(f"loading {nodes} nodes, {pods} pods", loaded, f"{len(result.binds)} run")]
    half = nodes * GPUS // len(QUEUES)
    for name, changes, expected in (
        ("1 % of the quota to the other queue", *_moved(half, nodes * GPUS // 100)),
        ("0.1 % of the quota to the other queue", *_moved(half, nodes * GPUS // 1000)),
        (
            "a node is drained",
            [DrainNode(node="node-0")],
            sum(bind.node == "node-0" for bind in result.binds),
        ),
    ):
        began = time.process_time()
        answer = ask(state, SchedulerConfig(), changes, now=NOW + 5, within=60.0)
        seconds = time.process_time() - began
        left = len(answer.changed.evicted | answer.changed.pods(Happened.DELETED))
        wrong = () if left == expected else (f"{left} pods have to go instead of {expected}",)
        found.append(Measured(f"what if {name}", seconds, f"{left} have to go", wrong))
    return found


def _moved(half: int, gpus: int) -> tuple[list[Change], int]:
    """So many GPUs of the first queue's quota are the second's, and as many pods have to go."""
    quotas = zip(QUEUES, (half - gpus, half + gpus), strict=True)
    return [
        SetBounds(queue=queue, bound=Bound.QUOTA, amounts={"gpu": amount}) for queue, amount in quotas
    ], gpus


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and say what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench.simulate", description="How fast a cluster lives on by itself."
    )
    parser.add_argument("--only", choices=["week", "what-if"], help="default: both")
    parser.add_argument("--nodes", type=int, default=0, help="default: 1,000 for a week, 5,000 for what-if")
    parser.add_argument("--pods", type=int, default=0, help="default: 10,000 for a week, 100,000 for what-if")
    told = parser.parse_args(arguments)
    found: list[Measured] = []
    if told.only != "what-if":
        nodes, pods = told.nodes or 1_000, told.pods or 10_000
        found += [week(nodes, pods, hours=hours) for hours in (HOURS, 3 * HOURS)]
    if told.only != "week":
        found += what_if(told.nodes or 5_000, told.pods or 100_000)
    print("| | seconds of work | |\n|---|---|---|")  # noqa: T201
    for each in found:
        print(each.row())  # noqa: T201
    wrong = [f"{each.name}: {text}" for each in found for text in each.wrong]
    for text in wrong:
        print(text, file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
