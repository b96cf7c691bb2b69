"""All sums at once: what is entered in one step, and what is counted anew."""

import random
from collections import Counter
from itertools import cycle, islice

import pytest

from kai.engine import Engine
from kai.snapshot.amounts import Totals
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, claiming, task_of
from libs.tests.engine.random_worlds import fuzz
from libs.tests.snapshot.ledger.cluster import a_gpu_claim, charges, settled

SEMI = {"preemptibility": "semi-preemptible"}


def admit(state, tasks, *, to=1) -> None:
    """Bind pods together, in turns to each of so many nodes."""
    tasks, there = list(tasks), state.nodes.nodes[:to]
    nodes = list(islice(cycle(there), len(tasks)))
    for node in there:
        here = [task.cls for task, other in zip(tasks, nodes, strict=True) if other is node]
        state.ledger.occupy(node, Counter(here))
    state.ledger.admit(tasks, nodes)


@fuzz
def test_pods_that_are_bound_together_are_charged_like_each_alone(world: int) -> None:
    rng = random.Random(world)
    names = ["a", "b"]
    jobs = [
        a_job(
            f"j{n}",
            queue=rng.choice(names),
            gpus=rng.choice([0, 1, 1]),
            cpu=rng.choice("12"),
            priority=rng.choice(["train", "build"]),
        )
        for n in range(rng.randint(1, 8))
    ]
    queues = [a_queue("top"), *(a_queue(name, parent="top") for name in names)]
    nodes = a_node("n0", gpus=99), a_node("n1", gpus=99, gpu_memory_mib=40_000)
    together, alone = (a_state(nodes, queues, jobs) for _ in range(2))
    for state in (together, alone):
        state.settle(NOW)
    admit(together, together.tasks.values(), to=2)
    for task, node in zip(alone.tasks.values(), cycle(alone.nodes.nodes)):
        alone.ledger.occupy(node, {task.cls: 1})
        alone.ledger.admit([task], [node])
    assert charges(together) == charges(alone)
    assert (together.nodes.idle == alone.nodes.idle).all()
    assert [queue.pending for queue in together.queue_rows] == [queue.pending for queue in alone.queue_rows]
    assert all(queue.pending == Totals() for queue in together.queue_rows)


def test_whatever_happened_what_is_counted_anew_is_the_same() -> None:
    state = settled(a_job("j", on=("n0", ""), gpus=1, min_member=1), a_job("k", fraction=0.5))
    Engine().run(state, NOW)
    state.check()


def one_by_one(state: ClusterState) -> None:
    """Bind all pods, each sum for itself."""
    node = state.nodes.nodes[0]
    for task in state.tasks.values():
        state.ledger.holds.hold(task, node, (), releasing=False)
        state.ledger.counts.set_status(task, Status.BINDING)
        state.ledger.charges.charge(task, node.gpu_memory_mib)


def evict_each(state: ClusterState) -> None:
    """Let all pods be victims that are tried, each sum for itself."""
    for task in state.tasks.values():
        state.ledger.charges.discharge(task)
        state.ledger.holds.set_releasing(task, releasing=True)
        state.ledger.counts.set_status(task, Status.RELEASING, virtual=True)


def same(one: ClusterState, other: ClusterState) -> bool:
    sums = [
        (
            charges(state),
            state.nodes.idle.tolist(),
            state.nodes.releasing.tolist(),
            [{key: repr(claim) for key, claim in node.claims.items()} for node in state.nodes.nodes],
            {key: (job.pending, job.active_allocated, job.active_used) for key, job in state.jobs.items()},
        )
        for state in (one, other)
    ]
    return sums[0] == sums[1]


BOUND_TOGETHER = {
    "plain ones": [a_job("j", pods=3, gpus=1)],
    "those of which each asks for something else": [
        a_job("j", gpus=1),
        a_job("k", gpus=1, cpu="2"),
        a_job("l", gpus=2),
    ],
    "those whose minimum nobody may take": [a_job("j", pods=3, min_member=2, gpus=1, group=SEMI)],
    "users of one claim": [a_gpu_claim("c", gpus=2), a_job("j", pods=3, spec=claiming("c"))],
}


@pytest.mark.parametrize("case", BOUND_TOGETHER)
def test_what_is_entered_in_one_step_is_what_single_steps_enter(case) -> None:
    together, alone = (settled(*BOUND_TOGETHER[case]) for _ in range(2))
    admit(together, together.tasks.values())
    one_by_one(alone)
    assert same(together, alone)


def test_of_pods_that_are_admitted_the_core_of_their_job_cannot_be_preempted() -> None:
    state = settled(a_job("j", pods=3, min_member=2, gpus=1, group=SEMI))
    admit(state, state.tasks.values())
    assert charges(state)["team"] == (3, 2)


@pytest.mark.parametrize("minimum", [1, 2])
def test_victims_that_are_tried_at_once_are_charged_like_each_alone(minimum) -> None:
    world = a_job("j", on=["n0", "n0", "n1"], min_member=minimum, gpus=1, group=SEMI)
    together, alone = settled(world), settled(world)
    assert charges(together)["team"] == (3, minimum)
    assert all(map(together.ledger.may_vacate, together.tasks.values()))
    together.ledger.vacate(list(together.tasks.values()))
    evict_each(alone)
    assert charges(together)["team"] == (0, 0)
    assert same(together, alone)


@pytest.mark.parametrize(
    "job",
    [
        a_job("j", gpus=1, on="n0", deleted=NOW - 5),
        a_job("j", gpus=1),
        a_job("j", fraction=0.5, on="n0", groups=["4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"]),
        [a_gpu_claim("c", gpus=1), a_job("j", on="n0", spec=claiming("c"))],
    ],
    ids=["on its way out", "that waits", "with a part of a device", "with a claim"],
)
def test_not_in_one_step_goes_a_pod(job) -> None:
    state = settled(job)
    assert not state.ledger.may_vacate(task_of(state, "j-0"))


def test_nor_one_that_is_promised_another_place() -> None:
    state = settled(a_job("j", gpus=1, on="n0"))
    task = task_of(state, "j-0")
    assert state.ledger.may_vacate(task)
    state.ledger.holds.pipeline(task, state.nodes.by_name["n1"], ())
    assert not state.ledger.may_vacate(task)
