"""In which order jobs of a queue, and queues, are served."""

import random

import pytest

from kai.engine import Engine
from kai.engine.plugins.elastic import Elastic
from kai.engine.plugins.priority import Priority
from kai.engine.queueing.order import JobHeap, KeyOfJob
from kai.engine.queueing.pending import PendingJobs, TwoJobs
from kai.engine.queueing.requests import request_of
from libs.tests.engine.builders import NOW, Part, a_job, a_queue, a_state, config, job_of, nodes
from libs.tests.engine.random_worlds import fuzz

PRIORITY, GROWTH = Priority(), Elastic()
usual_key = KeyOfJob([PRIORITY, GROWTH])


def in_order(*jobs, key=usual_key):
    state = a_state(nodes(1, gpus=99), *jobs)
    return [job.name for job in sorted(state.jobs.values(), key=key)]


BELOW = {"gpus": 1, "on": ("n0", ""), "min_member": 2}
AT = {"gpus": 1, "on": ("n0", ""), "min_member": 1}
ABOVE = {"gpus": 1, "on": ("n0", "n0"), "min_member": 1}


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param(
            [a_job("low"), a_job("high", priority="inference", created=9)],
            ["high", "low"],
            id="the higher priority",
        ),
        pytest.param(
            [a_job("above", **ABOVE), a_job("at", **AT, created=1), a_job("below", **BELOW, created=2)],
            ["below", "at", "above"],
            id="who is further below its minimum",
        ),
        pytest.param(
            [a_job("below", **BELOW), a_job("above", **ABOVE, priority="inference")],
            ["above", "below"],
            id="priority before growth",
        ),
        pytest.param([a_job("a", created=2), a_job("b", created=1)], ["b", "a"], id="the older one"),
        pytest.param([a_job("b"), a_job("a")], ["a", "b"], id="the first by name"),
        pytest.param(
            [
                a_job("a", Part("x", on=["n0"] * 2), Part("y", pods=1)),
                a_job("b", Part("x", on="n0"), created=1),
            ],
            ["a", "b"],
            id="a job with one subgroup below its minimum",
        ),
        pytest.param(
            [
                a_job("b", Part("x", on=["n0"] * 2), Part("y", on="n0")),
                a_job("a", Part("x", on="n0"), created=1),
            ],
            ["a", "b"],
            id="a job of which no subgroup is above its minimum",
        ),
    ],
)
def test_first_comes(jobs, expected) -> None:
    assert in_order(*jobs) == expected


def test_growth_counts_only_while_its_plugin_is_on() -> None:
    jobs = a_job("above", **ABOVE), a_job("below", **BELOW, created=1)
    assert in_order(*jobs, key=KeyOfJob([PRIORITY])) == ["above", "below"]


def test_priority_counts_only_while_its_plugin_is_on() -> None:
    jobs = a_job("low"), a_job("high", priority="inference", created=1)
    assert in_order(*jobs, key=KeyOfJob([GROWTH])) == ["low", "high"]


def test_the_order_of_a_cycle_follows_the_plugins_that_are_on() -> None:
    state = a_state(nodes(1), a_job("low"), a_job("high", priority="inference", created=1))
    for off, first in (((), "high"), (("priority",), "low")):
        session = Engine(config(off=off)).open(state, NOW)
        assert min(state.jobs.values(), key=session.job_key).name == first


@fuzz
def test_a_heap_gives_the_best_of_what_it_has_whenever_it_is_asked(world: int) -> None:
    rng = random.Random(world)
    state = a_state(
        [a_job(f"j{n}", priority=rng.choice(["train", "build"]), created=n // 2) for n in range(9)]
    )
    jobs = list(state.jobs.values())
    here = rng.sample(jobs, rng.randint(0, 9))
    heap, known = JobHeap(here, key=usual_key, depth=None), set(map(id, here))
    for _ in range(20):
        best = min((job for job in jobs if id(job) in known), key=usual_key, default=None)
        assert heap.head() is best
        assert heap.rest() == sorted((job for job in jobs if id(job) in known), key=usual_key)
        if best is not None and rng.random() < 0.6:
            assert heap.pop() is best
            known.discard(id(best))
        elif away := [job for job in jobs if id(job) not in known]:
            heap.push(back := rng.choice(away))
            known.add(id(back))


def test_a_heap_of_limited_depth_has_the_best() -> None:
    state = a_state([a_job(f"j{n}", created=9 - n) for n in range(4)])
    heap = JobHeap(state.jobs.values(), key=usual_key, depth=2)
    assert [job.name for job in heap.rest()] == ["j3", "j2"]


def uneven_queues(rng: random.Random):
    queues = [
        a_queue(f"q{n}", parent=f"d{n % 2}", gpu=rng.choice([0, 1, 4])) for n in range(rng.randint(1, 5))
    ]
    names = [queue.metadata.name for queue in queues]
    return a_state(
        [a_queue("d0", gpu=rng.choice([0, 3])), a_queue("d1", priority=rng.choice([None, 200])), queues],
        nodes(1, gpus=40),
        [a_job(f"r{n}", queue=rng.choice(names), gpus=rng.randint(0, 3), on="n0") for n in range(6)],
        [
            a_job(
                f"w{n}",
                queue=rng.choice(names),
                gpus=rng.randint(0, 3),
                priority=rng.choice(["train", "build-preemptible"]),
                created=rng.randint(0, 2),
            )
            for n in range(8)
        ],
    )


@fuzz
def test_the_next_job_is_the_best_of_the_best_queue_at_every_level(world: int) -> None:
    """Found by looking at all of them each time, while jobs are placed and come again."""
    rng = random.Random(world)
    state = uneven_queues(rng)
    session = Engine().open(state, NOW)
    jobs = session.allocatable_jobs()
    waiting = PendingJobs(jobs, session.queue_order, key=session.job_key, gpu_memory_mib=0)
    left, statement = list(jobs), session.statement()

    def key(queue, job):
        order, asked = session.queue_order, request_of(list(job.single.tasks.values()), gpu_memory_mib=0)
        return (order.key(queue.row, job=asked), order.age[queue.row])

    def best(jobs):
        level = 1
        while True:
            lines = {}
            for job in jobs:
                path = job.queue.path[::-1]
                lines.setdefault(path[level - 1].name, []).append(job)
            heads = {name: best_below(below, level) for name, below in lines.items()}
            name = min(heads, key=lambda name: key(state.queues[name], heads[name]))
            jobs = lines[name]
            if len(jobs[0].queue.path) == level:
                return min(jobs, key=session.job_key)
            level += 1

    def best_below(jobs, level):
        if len(jobs[0].queue.path) == level:
            return min(jobs, key=session.job_key)
        lines = {}
        for job in jobs:
            lines.setdefault(job.queue.path[::-1][level].name, []).append(job)
        heads = {name: best_below(below, level + 1) for name, below in lines.items()}
        return heads[min(heads, key=lambda name: key(state.queues[name], heads[name]))]

    while left:
        expected = best(left)
        assert waiting.pop() is expected
        left.remove(expected)
        if rng.random() < 0.6:
            statement.pipeline(next(iter(expected.single.tasks.values())), state.nodes.nodes[0])
    assert waiting.pop() is None


@fuzz
def test_two_jobs_come_in_the_order_in_which_they_come_among_all(world: int) -> None:
    rng = random.Random(world)
    state = uneven_queues(rng)
    session = Engine().open(state, NOW)
    pair = tuple(rng.sample(session.allocatable_jobs(), 2))
    two = TwoJobs(pair, session.queue_order, key=session.job_key, gpu_memory_mib=0)
    many = PendingJobs(pair, session.queue_order, key=session.job_key, gpu_memory_mib=0)
    found = [two.pop() for _ in range(3)]
    assert found == [many.pop() for _ in range(3)]
    assert found[2] is None
    two.push(pair[1])
    assert two.pop() is pair[1]


def test_jobs_of_a_queue_that_has_queues_below_are_not_served() -> None:
    state = a_state(nodes(1), a_queue("a", parent="top"), a_job("x", queue="top"), a_job("y", queue="a"))
    session = Engine().open(state, NOW)
    jobs = [job_of(state, name) for name in "xy"]
    waiting = PendingJobs(jobs, session.queue_order, key=session.job_key, gpu_memory_mib=0)
    assert waiting.pop() is jobs[1]
    assert waiting.pop() is None
