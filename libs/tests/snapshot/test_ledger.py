"""What nodes, queues and pod groups are charged for pods; every entry has an exact inverse."""

import random

import pytest

from kai.engine import Engine
from kai.snapshot.resources import CPU, GPU, PODS
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, fuzz, job_of, task_of

DEVICE = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"


def settled(*world) -> ClusterState:
    state = a_state(
        a_node("n0", gpus=2, gpu_memory_mib=16_000, cpu="8"),
        a_node("n1", gpus=2, gpu_memory_mib=16_000),
        *world,
    )
    state.settle(NOW)
    return state


def gpus(state: ClusterState, name: str = "n0") -> tuple[int, int]:
    """Of a node: GPUs that are idle, and that are being released."""
    row = state.nodes.by_name[name].row
    return int(state.nodes.idle[row, GPU]), int(state.nodes.releasing[row, GPU])


# --- nodes ---------------------------------------------------------------------------------------
def test_a_pod_holds_all_that_it_asks_for_and_a_slot() -> None:
    state = settled(a_job("j", gpus=1, cpu="3"))
    before = state.nodes.idle[0].copy()
    state.ledger.hold(task_of(state, "j-0"), state.nodes.nodes[0], (), releasing=False)
    taken = before - state.nodes.idle[0]
    assert (taken[GPU], taken[CPU], taken[PODS]) == (1, 3000, 1)
    state.ledger.unhold(task_of(state, "j-0"))
    assert (state.nodes.idle[0] == before).all()


def test_a_pod_that_releases_what_it_holds_holds_it_still() -> None:
    state = settled(a_job("j", gpus=2))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.hold(task, state.nodes.nodes[0], (), releasing=True)
    assert gpus(state) == (0, 2)
    ledger.set_releasing(task, releasing=False)
    assert gpus(state) == (0, 0)
    ledger.set_releasing(task, releasing=False)
    assert gpus(state) == (0, 0)
    ledger.set_releasing(task, releasing=True)
    ledger.unhold(task)
    assert gpus(state) == (2, 0)


def test_a_pod_that_is_promised_a_place_takes_of_what_is_released() -> None:
    state = settled(a_job("j", gpus=2))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.pipeline(task, state.nodes.nodes[0], ())
    assert gpus(state) == (2, -2)
    ledger.unpipeline(task)
    assert gpus(state) == (2, 0)


def test_a_pod_on_its_way_from_one_node_to_another_is_on_both() -> None:
    state = settled(a_job("j", gpus=2, on="n0"))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.set_releasing(task, releasing=True)
    ledger.pipeline(task, state.nodes.by_name["n1"], ())
    assert (gpus(state, "n0"), gpus(state, "n1")) == ((0, 2), (2, -2))
    assert all(task.uid in node.tasks for node in state.nodes.nodes)
    ledger.unpipeline(task)
    assert task.uid not in state.nodes.by_name["n1"].tasks


@pytest.mark.parametrize(
    ("holders", "waiters", "expected"),
    [
        pytest.param([], 0, (2, 0), id="of nobody, it is there no more"),
        pytest.param(["stays"], 0, (1, 0), id="of one who stays, it is not idle"),
        pytest.param(["stays", "leaves"], 0, (1, 0), id="of one who stays and one who leaves"),
        pytest.param(["leaves", "leaves"], 0, (1, 1), id="of those who leave, it is being released"),
        pytest.param(["leaves"], 1, (1, 0), id="of one who leaves and one who waits for it"),
        pytest.param([], 1, (2, -1), id="of one who waits, it is promised"),
        pytest.param([], 2, (2, -1), id="of two who wait, it is promised once"),
        pytest.param(["stays"], 1, (1, 0), id="of one who stays and one who waits"),
    ],
)
def test_a_shared_device_counts_as_a_whole_one(holders, waiters, expected) -> None:
    count = len(holders) + waiters
    state = settled(a_job("j", pods=max(count, 1), fraction=0.2))
    ledger, node = state.ledger, state.nodes.nodes[0]
    held = [task_of(state, f"j-{number}") for number in range(len(holders))]
    waits = [task_of(state, f"j-{number}") for number in range(len(holders), count)]
    steps = [(ledger.unhold, task) for task in held] + [(ledger.unpipeline, task) for task in waits]
    for task, what in zip(held, holders, strict=True):
        ledger.hold(task, node, (DEVICE,), releasing=what == "leaves")
    for task in waits:
        ledger.pipeline(task, node, (DEVICE,))
    assert gpus(state) == expected
    random.Random(count).shuffle(steps)
    for undo, task in steps:
        undo(task)
    assert (gpus(state), dict(node.groups)) == ((2, 0), {})


# --- queues --------------------------------------------------------------------------------------
def charges(state: ClusterState) -> dict[str, tuple[float, float]]:
    """GPUs that queues are charged for, and of these for what cannot be preempted; columns say the same."""
    for queue in state.queue_order:
        assert state.ledger.allocated[queue.row, 2] == queue.allocated[2] / 100
        assert state.ledger.non_preemptible[queue.row, 2] == queue.non_preemptible[2] / 100
    return {
        queue.name: (queue.allocated[2] / 100, queue.non_preemptible[2] / 100) for queue in state.queue_order
    }


@pytest.mark.parametrize(("priority", "fixed"), [("train", 0), ("build", 2)])
def test_a_queue_and_all_above_it_are_charged(priority, fixed) -> None:
    queues = (
        a_queue("top"),
        a_queue("mid", parent="top"),
        a_queue("a", parent="mid"),
        a_queue("b", parent="mid"),
    )
    state = settled(queues, a_job("j", gpus=2, queue="a", priority=priority))
    task = task_of(state, "j-0")
    state.ledger.charge(task, 16_000)
    assert charges(state) == {"top": (2, fixed), "mid": (2, fixed), "a": (2, fixed), "b": (0, 0)}
    charged = task.charged
    state.ledger.discharge(task)
    assert task.charged is None
    assert set(charges(state).values()) == {(0, 0)}
    state.ledger.recharge(task, charged)
    assert charges(state)["top"] == (2, fixed)


def test_memory_of_a_device_is_charged_by_the_device_where_it_is_taken() -> None:
    state = settled(a_job("j", gpu_memory_mib=8_000))
    task = task_of(state, "j-0")
    for memory, share in ((16_000, 0.5), (32_000, 0.25)):
        state.ledger.charge(task, memory)
        assert charges(state)["team"] == (share, 0)
        state.ledger.discharge(task)


@fuzz
def test_pods_that_are_bound_together_are_charged_like_each_alone(world: int) -> None:
    rng = random.Random(world)
    names = ["a", "b"]
    jobs = [
        a_job(f"j{n}", queue=rng.choice(names), gpus=1, priority=rng.choice(["train", "build"]))
        for n in range(rng.randint(1, 8))
    ]
    queues = [a_queue("top"), *(a_queue(name, parent="top") for name in names)]
    together, alone = (a_state(a_node("n0", gpus=99), queues, jobs) for _ in range(2))
    for state in (together, alone):
        state.settle(NOW)
    together.ledger.admit(list(together.tasks.values()), together.nodes.nodes[0])
    for task in alone.tasks.values():
        alone.ledger.admit([task], alone.nodes.nodes[0])
    assert charges(together) == charges(alone)
    assert (together.nodes.idle == alone.nodes.idle).all()
    assert [queue.pending for queue in together.queue_order] == [queue.pending for queue in alone.queue_order]
    assert all(queue.pending == [0, 0, 0] for queue in together.queue_order)


# --- pod groups ----------------------------------------------------------------------------------
def test_a_job_counts_its_pods_by_their_state() -> None:
    state = settled(a_job("j", pods=3, gpus=0))
    job, task = job_of(state, "j"), task_of(state, "j-0")
    expected = {
        Status.PENDING: (3, 0, 0),
        Status.BINDING: (2, 1, 1),
        Status.RUNNING: (2, 1, 1),
        Status.PIPELINED: (2, 1, 1),
        Status.RELEASING: (2, 0, 1),
        Status.SUCCEEDED: (2, 0, 0),
    }
    for status, counts in [*expected.items(), *reversed(expected.items())]:
        version = job.version
        state.ledger.set_status(task, status)
        assert (job.pending, job.active_allocated, job.active_used) == counts, status
        assert job.version > version
    assert (job.single.pending, job.single.pipelined, job.single.succeeded) == (3, 0, 0)


def test_whatever_happened_what_is_counted_anew_is_the_same() -> None:
    state = settled(a_job("j", on=("n0", ""), gpus=1, min_member=1), a_job("k", fraction=0.5))
    Engine().run(state, NOW)
    state.check()
