"""How fast a cluster's life is simulated, and a single question answered; both are checked.

A week of arrivals at 1,000 nodes: 10,000 pods in gangs of 1, 2, 4 or 8, with runtimes drawn from a seed. And
what follows from changes at 5,000 nodes with 100,000 pods, once the state is loaded.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from kai.bench.clusters import NOW, benchmarks
from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import SchedulerConfig
from kai.model.objects import Node, Pod, PodGroup
from kai.simulate import what_if
from kai.simulate.changes import AddNodes, AddWorkload, Bound, Change, DeleteQueue, DrainNode, SetBounds
from kai.simulate.course import Course, Event, Happened, Pace
from kai.simulate.journal import journal
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind

WEEK = 7 * 86_400.0
GPUS = 8
QUEUES = 20


def a_cluster(nodes: int) -> ClusterState:
    """An empty cluster with twenty queues that share it."""
    state = ClusterState()
    listed: list[tuple[Kind, object]] = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
    listed += [(Kind.NODE, _node(number)) for number in range(nodes)]
    listed.append((Kind.QUEUE, a_queue("top")))
    quota = nodes * GPUS / QUEUES
    listed += [(Kind.QUEUE, a_queue(f"q{n}", parent="top", gpu=quota)) for n in range(QUEUES)]
    state.load(listed)
    return state


def _node(number: int) -> Node:
    return a_node(f"node-{number:04}", gpus=GPUS)


def arrivals(pods: int, *, load: float, nodes: int, seed: int) -> list[tuple[float, AddWorkload, float]]:
    """When which gang comes, and how long it runs: ``load`` of all GPUs are asked for on average."""
    rng = random.Random(seed)
    sizes: list[tuple[int, int]] = []
    while (left := pods - sum(count for count, _ in sizes)) > 0:
        sizes.append((min(rng.choice([1, 1, 1, 2, 4, 8]), left), rng.choice([1, 1, 2, 4, 8])))
    seconds = load * nodes * GPUS * WEEK / sum(count * gpus for count, gpus in sizes)
    found = []
    for number, (count, gpus) in enumerate(sizes):
        name, queue = f"job-{number:05}", f"q{rng.randrange(QUEUES)}"
        at = NOW + rng.random() * WEEK
        priority = rng.choice(["train", "train", "train", "build"])
        group: PodGroup = a_group(name, queue=queue, min_member=count, created=at, priority=priority)
        members: list[Pod] = [a_pod(f"{name}-{n}", group=name, gpus=gpus, created=at) for n in range(count)]
        found.append((at, AddWorkload(groups=[group], pods=members), rng.expovariate(1 / seconds)))
    return found


def wrong(course: Course, pods: Sequence[Pod], *, nodes: int) -> list[str]:
    """What cannot be: judged from the events alone, and from the sums of the state."""
    course.state.check()
    gpus = {pod.key: int((pod.spec.containers[0].resources.requests or {})["nvidia.com/gpu"]) for pod in pods}
    held: Counter[str] = Counter()
    where: dict[str, str] = {}
    found = []
    for event in course.events:
        if event.what is Happened.STARTED:
            if event.pod in where:
                found.append(f"{event.pod} starts and runs already")
            where[event.pod] = event.node
            held[event.node] += gpus[event.pod]
            if held[event.node] > GPUS:
                found.append(f"{event.node} holds {held[event.node]} GPUs")
        else:
            if where.pop(event.pod, None) != event.node:
                found.append(f"{event.pod} leaves {event.node}, where it was not")
            held[event.node] -= gpus[event.pod]
    ended = sum(event.what is Happened.ENDED for event in course.events)
    alive = sum(job.pending + job.active_used for job in course.state.jobs.values())
    if len({event.pod for event in course.events if event.what is Happened.ENDED}) != ended:
        found.append("a pod ended twice")
    if ended + alive != len(pods):
        found.append(f"{ended} pods ended and {alive} are left of {len(pods)}")
    return found


def week(*, nodes: int, pods: int, load: float, seed: int = 1) -> tuple[float, Course, list[str]]:
    """Seconds of processor time, what happened, and what is wrong with it."""
    state, coming = a_cluster(nodes), arrivals(pods, load=load, nodes=nodes, seed=seed)
    lasting = {change.groups[0].key: runtime for _, change, runtime in coming}

    def runtime(job: Job, ran: float, rng: random.Random) -> float:
        del ran, rng
        return lasting[job.key]

    gc.collect()
    gc.freeze()
    started = time.process_time()
    with journal(state) as opened:
        course = Course(opened, SchedulerConfig(), now=NOW, runtimes=runtime, pace=Pace(period=1.0))
        for at, change, _ in coming:
            course.plan(at, [change])
        course.run(NOW + WEEK)
        took = time.process_time() - started
        return (
            took,
            course,
            wrong(course, [pod for _, change, _ in coming for pod in change.pods], nodes=nodes),
        )


def questions(report: Callable[[str], None]) -> None:
    """Single questions about a large cluster."""
    state = ClusterState()
    state.load(benchmarks()["Idle_5000Node"].base())
    gc.collect()
    gc.freeze()
    asked: list[Change] = [
        SetBounds(queue="queue-1", bound=Bound.QUOTA, amounts={"gpu": 10}),
        SetBounds(queue="queue-1", bound=Bound.LIMIT, amounts={"gpu": 10}),
        DrainNode(node="node-7"),
        AddNodes(like="node-7", count=10),
        DeleteQueue(queue="queue-1"),
    ]
    for change in asked:
        started = time.process_time()
        answer = what_if.ask(state, SchedulerConfig(), [change], now=NOW, within=600)
        took = time.process_time() - started
        report(f"{change.text}: {took:.2f} s, {_counted(answer.changed.events)}")
    state.check()


def _counted(events: Sequence[Event]) -> str:
    counts = Counter(event.what.value for event in events)
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing happens"


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print the figures; exit status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--load", type=float, nargs="*", default=[0.7, 0.95, 1.1])
    parser.add_argument("--no-questions", action="store_true")
    given = parser.parse_args()
    problems: list[str] = []
    for load in given.load:
        took, course, found = week(nodes=given.nodes, pods=given.pods, load=load)
        problems += found
        _tell(f"a week at load {load:g}: {took:.1f} s, {course.cycles} cycles, {_counted(course.events)}")
    if not given.no_questions:
        questions(_tell)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _tell(f"peak memory {peak:.0f} MiB")
    for problem in problems[:20]:
        _tell(problem)
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
