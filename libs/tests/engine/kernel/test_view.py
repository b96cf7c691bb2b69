"""Which nodes can take a pod, now or once something is released, and which of them is the best."""

import random

import numpy as np
import pytest

from kai.engine import Engine
from kai.engine.kernel.view import NEVER
from kai.snapshot.status import Status
from libs.tests.engine.builders import (
    NOW,
    SLICE,
    a_job,
    a_node,
    a_state,
    add,
    config,
    leaving,
    nodes,
    slices,
    task_of,
)
from libs.tests.engine.random_worlds import fuzz

DEVICES = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{number:03}" for number in range(3)]
SPREAD = config(told={"nodeplacement": {"gpu": "spread", "cpu": "spread"}})


def view_of(*world, pod="j-0", by=None):
    state = a_state(*world)
    session = Engine(by).open(state, NOW)
    return session, session.view(task_of(state, pod).cls)


def order(*world, by=None):
    """Nodes that can take the pod ``j-0``, best first."""
    session, view = view_of(*world, by=by)
    score = view.refresh()
    able = [row for row in range(len(score)) if score[row] != NEVER]
    return [session.nodes.nodes[row].name for row in sorted(able, key=lambda row: (-score[row], row))]


HALF = {"fraction": 0.5}
SMALL = {"gpu_memory_mib": 16_000}


WHERE = {
    "all that have room": ([nodes(2, gpus=2), a_job("j", gpus=2)], ["n0", "n1"]),
    "none with too little": ([a_node("n0", gpus=1), a_node("n1", gpus=2), a_job("j", gpus=2)], ["n1"]),
    "the fuller one first": (
        [nodes(2, gpus=2), a_job("old", gpus=1, on="n0"), a_job("j", gpus=1)],
        ["n0", "n1"],
    ),
    "those with room now before those with room later": (
        [nodes(2, gpus=2), leaving("old", gpus=2, on="n0"), a_job("j", gpus=2)],
        ["n1", "n0"],
    ),
    "none that is in use": ([nodes(1, gpus=2), a_job("old", gpus=1, on="n0"), a_job("j", gpus=2)], []),
    "CPU nodes for CPU pods": ([a_node("n0", gpus=1), a_node("n1", gpus=0), a_job("j")], ["n1", "n0"]),
    "for CPU pods nodes of which all GPUs are taken": (
        [nodes(2, gpus=1), a_job("old", gpus=1, on="n1"), a_job("j")],
        ["n1", "n0"],
    ),
    "for parts nodes with a device in use": (
        [nodes(2, gpus=2, **SMALL), a_job("old", **HALF, groups=DEVICES[:1], on="n1"), a_job("j", **HALF)],
        ["n1", "n0"],
    ),
    "none of which every device is too full": (
        [
            nodes(1, gpus=1, **SMALL),
            a_job("old", fraction=0.6, groups=DEVICES[:1], on="n0"),
            a_job("j", **HALF),
        ],
        [],
    ),
    "not two devices of two nodes": ([nodes(2, gpus=1, **SMALL), a_job("j", fraction=0.5, devices=2)], []),
    "a device in use and a free one": (
        [
            nodes(1, gpus=2, **SMALL),
            a_job("old", **HALF, groups=DEVICES[:1], on="n0"),
            a_job("j", fraction=0.5, devices=2),
        ],
        ["n0"],
    ),
    "devices that are large enough": (
        [
            a_node("n0", gpus=1, gpu_memory_mib=8_000),
            a_node("n1", gpus=1, gpu_memory_mib=16_000),
            a_job("j", gpu_memory_mib=9_000),
        ],
        ["n1"],
    ),
    "for a new shared device a slot for its reservation, too": (
        [a_node("n0", gpus=1, pods=1, **SMALL), a_job("j", **HALF)],
        [],
    ),
}


@pytest.mark.parametrize("case", WHERE)
def test_a_pod_can_go_to(case) -> None:
    world, expected = WHERE[case]
    assert order(*world) == expected


def test_a_slice_is_not_taken_beside_pods_that_ask_for_slices_in_the_old_way() -> None:
    group, old = a_job("old", on="n0")
    old.metadata.annotations[SLICE] = "1"
    mixed = nodes(2, gpus=0, extra={SLICE: "2"}, labels={"nvidia.com/mig.strategy": "mixed"})
    new = slices(a_job("j"))
    assert order(mixed, new) == ["n0", "n1"]
    assert order(mixed, group, old, new) == ["n1"]


def test_spreading_takes_the_emptier_node() -> None:
    world = nodes(2, gpus=2), a_job("old", gpus=1, on="n0"), a_job("j", gpus=1)
    assert order(*world, by=SPREAD) == ["n1", "n0"]


def test_what_is_promised_to_one_is_nobody_elses() -> None:
    session, view = view_of(
        nodes(1, gpus=2), leaving("old", gpus=1, on="n0"), a_job("x", gpus=2), a_job("j", gpus=1)
    )
    assert view.best() == 0
    statement = session.statement()
    statement.pipeline(task_of(session.state, "x-0"), session.nodes.nodes[0])
    assert view.best() == -1
    statement.rollback()
    assert view.best() == 0


def test_a_node_that_comes_later_is_seen() -> None:
    state = a_state(nodes(1, gpus=1), a_job("j", gpus=2))
    engine = Engine()
    assert engine.open(state, NOW).view(task_of(state, "j-0").cls).best() == -1
    add(state, a_node("n1", gpus=2))
    assert engine.open(state, NOW).view(task_of(state, "j-0").cls).best() == 1


def test_the_best_node_is_found_anew_where_what_changed_was_forgotten() -> None:
    session, view = view_of(nodes(2, gpus=4), a_job("x", gpus=1), a_job("j", gpus=1))
    state = session.state
    assert view.best() == 0
    task, (_, fuller) = task_of(state, "x-0"), state.nodes.nodes
    start = state.nodes.log_start
    while state.nodes.log_start == start:
        state.ledger.holds.hold(task, fuller, (), releasing=False)
        state.ledger.holds.unhold(task)
        state.settle(NOW)
    state.ledger.holds.hold(task, fuller, (), releasing=False)
    assert view.best() == 1


@fuzz
def test_a_pod_can_go_where_its_amounts_fit_and_nowhere_else(world: int) -> None:
    rng = random.Random(world)
    made = [
        a_node(f"n{n}", gpus=rng.randint(0, 3), cpu=str(rng.randint(1, 4)), memory=f"{rng.randint(1, 3)}G")
        for n in range(14)
    ]
    jobs = [
        a_job(
            f"r{n}",
            gpus=rng.randint(0, 2),
            on=f"n{rng.randint(0, 13)}",
            deleted=rng.choice([0, 0, NOW - 5]),
        )
        for n in range(8)
    ]
    state = a_state(made, jobs, a_job("j", gpus=rng.randint(0, 2), cpu=str(rng.randint(1, 2))))
    session = Engine().open(state, NOW)
    task = task_of(state, "j-0")
    view = session.view(task.cls)
    statement = session.statement()
    for _ in range(4):
        table = state.nodes
        needed = np.zeros(table.idle.shape[1], dtype=np.int64)
        for column, amount in task.cls.items:
            needed[column] = amount
        asked = needed > 0
        later = ((table.idle + table.releasing)[:, asked] >= needed[asked]).all(axis=1)
        now = (table.idle[:, asked] >= needed[asked]).all(axis=1)
        score = view.refresh()
        assert ((score != NEVER) == later).all()
        assert (view.ready_rows() == (now & later)).all()
        assert [view.ready(row) for row in range(len(now))] == (now & later).tolist()
        if now.any():
            assert now[view.best()]
        victims = [each for each in state.tasks.values() if each.status is Status.RUNNING]
        if victims:
            statement.evict_all(rng.sample(victims, rng.randint(1, len(victims))))
