"""In which order victims are drawn, chunk by chunk, and who is none."""

import random

import pytest

from kai.engine import Engine
from kai.engine.queueing.victims import held_by
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_job,
    a_priority_class,
    a_queue,
    a_running,
    a_state,
    job_of,
    nodes,
)
from libs.tests.engine.random_worlds import fuzz


def drawn(*world, taker="taker", of_queue=lambda queue: True, of_job=None, most=None):
    """Batches in order, each as the names of its pods."""
    state = a_state(nodes(1, gpus=100), world, a_job(taker, gpus=1, queue="team"))
    source = Engine().open(state, NOW).victim_source(job_of(state, taker), of_queue, of_job=of_job, most=most)
    return chunks(source)


def chunks(source):
    found = []
    while (batch := source.get(len(found))) is not None:
        assert batch.number == len(found)
        found.append([task.name for task in batch.tasks])
    return found


def test_the_youngest_is_the_first() -> None:
    assert drawn([a_running(name, created=age) for age, name in enumerate("bac")]) == [
        ["c-0"],
        ["a-0"],
        ["b-0"],
    ]


def test_of_one_age_the_last_by_name_is_the_first() -> None:
    assert drawn([a_running(name) for name in "bac"]) == [["c-0"], ["b-0"], ["a-0"]]


def test_lower_priorities_come_first_whatever_their_age() -> None:
    low = (
        a_priority_class("low", 10),
        a_running("low", priority="low", created=1),
        a_running("train", created=2),
    )
    assert drawn(low) == [["low-0"], ["train-0"]]


def test_surplus_comes_before_what_younger_jobs_need_and_the_minimum_in_turn() -> None:
    elastic = a_job("elastic", gpus=1, on=["n0"] * 3, min_member=1, created=1)
    found = drawn(elastic, a_running("young", created=2))
    assert found == [["elastic-2"], ["elastic-1"], ["young-0"], ["elastic-0"]]


def test_a_gang_is_one_chunk() -> None:
    assert drawn(a_job("gang", gpus=1, on=["n0"] * 3)) == [["gang-0", "gang-1", "gang-2"]]


def test_a_subgroup_that_is_not_needed_goes_before_the_others() -> None:
    job = a_job("job", Part("a", on="n0"), Part("b", on="n0"), gpus=1, group={"min_sub_group": 1})
    assert drawn(job) == [["job-b-0"], ["job-a-0"]]


def test_surplus_of_a_subgroup_goes_before_a_subgroup() -> None:
    parts = Part("a", on=["n0"] * 2), Part("b", on="n0")
    job = a_job("job", *parts, gpus=1, group={"min_sub_group": 1})
    assert drawn(job)[0] == ["job-a-1"]


def test_pods_that_wait_or_are_on_their_way_out_are_no_victims() -> None:
    leaves = a_job("leaves", gpus=1, on="n0", deleted=NOW - 5)
    assert drawn(leaves, a_job("waits", gpus=1), a_running("x")) == [["x-0"]]


def test_neither_who_searches_nor_who_cannot_be_preempted_is_a_victim() -> None:
    taker = a_job("taker", gpus=1, on=("n0", ""), min_member=1)
    state = a_state(nodes(1, gpus=9), taker, a_running("build", priority="build"), a_running("x"))
    source = Engine().open(state, NOW).victim_source(job_of(state, "taker"), lambda queue: True)
    assert chunks(source) == [["x-0"]]


def test_whoever_is_not_accepted_is_passed_over_wherever_it_stands() -> None:
    jobs = [a_running(name, created=age) for age, name in enumerate("abcd")]
    assert drawn(jobs, of_job=lambda job: job.name not in "ad") == [["c-0"], ["b-0"]]
    assert drawn(jobs, of_job=lambda job: False) == []


def test_whoever_is_not_accepted_is_passed_over_in_each_of_several_queues() -> None:
    queues = [a_queue("team"), a_queue("other")]
    jobs = [
        a_running(f"{queue}-{n}", queue=queue, created=n) for queue in ("team", "other") for n in range(3)
    ]
    found = drawn(queues, jobs, of_job=lambda job: not job.name.endswith(("0", "2")))
    assert sorted(found) == [["other-1-0"], ["team-1-0"]]


def test_only_queues_that_may_lose_are_asked() -> None:
    queues = [a_queue("team"), a_queue("other")]
    world = queues, a_running("mine"), a_running("theirs", queue="other")
    assert drawn(world, of_queue=lambda queue: queue.name == "other") == [["theirs-0"]]


def test_the_queue_that_is_served_last_loses_first_and_again_after_each_chunk() -> None:
    queues = [a_queue(name, gpu=0) for name in ("rich", "poor", "team")]
    rich = [a_running(f"r{n}", queue="rich", created=n) for n in range(3)]
    poor = [a_running(f"p{n}", queue="poor", created=n) for n in range(2)]
    found = drawn(queues, rich, poor)
    assert found[0] == ["r2-0"]
    assert {tuple(each) for each in found[1:3]} == {("r1-0",), ("p1-0",)}
    assert {tuple(each) for each in found[3:]} == {("r0-0",), ("p0-0",)}


def test_what_a_job_gave_up_counts_once_against_its_queue() -> None:
    """With each chunk that counts for no more than is left of the job the rich queue stays the richer one."""
    queues = [a_queue(name, gpu=0) for name in ("rich", "poor", "team")]
    elastic = a_job("elastic", queue="rich", gpus=1, on=["n0"] * 4, min_member=1, created=99)
    rich = [a_running(f"r{n}", queue="rich", created=n) for n in range(32)]
    poor = [a_running(f"p{n}", queue="poor", created=n) for n in range(24)]
    assert drawn(queues, elastic, rich, poor)[:4] == [[f"elastic-{n}"] for n in (3, 2, 1, 0)]


@pytest.mark.parametrize(("older", "younger"), [("team", "other"), ("other", "team")])
def test_of_queues_that_are_equal_the_younger_loses_first(older, younger) -> None:
    queues = a_queue(older, gpu=0, created=1), a_queue(younger, gpu=0, created=2), a_queue("taker", gpu=1)
    world = (
        queues,
        a_running("a", queue=older),
        a_running("b", queue=younger),
        a_job("t", gpus=1, queue="taker"),
    )
    state = a_state(nodes(1, gpus=100), world)
    source = Engine().open(state, NOW).victim_source(job_of(state, "t"), lambda queue: True)
    assert chunks(source) == [["b-0"], ["a-0"]]


def test_pods_that_are_gone_count_for_nothing() -> None:
    state = a_state(nodes(1, gpus=8), a_job("j", gpus=2, on=["n0"] * 3))
    job, (one, *_) = job_of(state, "j"), state.tasks
    assert (held_by(job)[2], held_by(job, gone=[one])[2]) == (6, 4)


@pytest.mark.parametrize(("most", "names"), [(0, []), (1, ["d"]), (2, ["d", "c"]), (9, ["d", "c", "b", "a"])])
def test_at_most_so_many_jobs_are_drawn_the_last_in_order(most, names) -> None:
    jobs = [a_running(name, created=age) for age, name in enumerate("abcd")]
    assert drawn(jobs, most=most) == [[f"{name}-0"] for name in names]


@fuzz
def test_chunks_are_all_that_victims_hold_each_pod_once_and_never_break_a_gang_in_two(world: int) -> None:
    rng = random.Random(world)
    queues = [a_queue(f"q{n}", gpu=rng.choice([0, 2])) for n in range(rng.randint(1, 3))]
    jobs = []
    for number in range(rng.randint(1, 8)):
        pods = rng.randint(1, 4)
        queue = rng.choice(queues).metadata.name
        minimum = rng.randint(1, pods)
        jobs.append(
            a_job(f"j{number}", queue=queue, gpus=1, on=["n0"] * pods, min_member=minimum, created=number)
        )
    state = a_state(nodes(1, gpus=100), queues, jobs, a_job("taker", queue="q0", gpus=1))
    session = Engine().open(state, NOW)
    source = session.victim_source(job_of(state, "taker"), lambda queue: True)
    found = chunks(source)
    taken = [name for chunk in found for name in chunk]
    assert sorted(taken) == sorted(task.name for task in state.tasks.values() if task.node is not None)
    left = {job.name: job.active_allocated for job in state.jobs.values()}
    for batch in source.batches:
        job = batch.job
        left[job.name] -= len(batch.tasks)
        assert left[job.name] == 0 or left[job.name] >= job.single.min_member
        assert len(batch.tasks) == 1 or left[job.name] == 0
    columns = source.columns()
    assert columns.row.tolist() == [0] * len(taken)
    assert columns.gpu_centi.tolist() == [100] * len(taken)
    sizes = [len(chunk) for chunk in found]
    assert columns.batch.tolist() == [number for number, size in enumerate(sizes) for _ in range(size)]
    assert columns.start.tolist() == [sum(sizes[:number]) for number in range(len(sizes) + 1)]


@fuzz
def test_what_is_drawn_piecemeal_is_what_is_drawn_at_once(world: int) -> None:
    """Single pods of one queue are drawn many at a time."""
    rng = random.Random(world)
    jobs = [
        a_job(f"j{n}", gpus=1, on=["n0"] * rng.choice([1, 1, 1, 2]), min_member=1, created=n)
        for n in range(12)
    ]
    state = a_state(nodes(1, gpus=100), jobs, a_job("taker", gpus=1))
    session = Engine().open(state, NOW)
    taker = job_of(state, "taker")
    refused = set(rng.sample(range(12), 3))

    def accepts(job):
        return int(job.name[1:]) not in refused

    one = session.victim_source(taker, lambda queue: True, of_job=accepts)
    other = session.victim_source(taker, lambda queue: True, of_job=accepts)
    numbers = sorted(rng.sample(range(16), 4))
    for number in numbers:
        one.get(number)
        one.columns()
    one.get(99)
    assert [[task.name for task in batch.tasks] for batch in one.batches] == chunks(other)
    for name in ("row", "batch", "cls", "gpu_centi", "start"):
        assert getattr(one.columns(), name).tolist() == getattr(other.columns(), name).tolist(), name
    assert one.jobs().tolist() == other.jobs().tolist()
