"""What pods hold of nodes, and what they are promised there."""

import random

import pytest

from kai.snapshot.resources import CPU, GPU, PODS
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import a_job, claiming, task_of
from libs.tests.snapshot.ledger.cluster import a_gpu_claim, settled

DEVICE = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"


def gpus(state: ClusterState, name: str = "n0") -> tuple[int, int]:
    """Of a node: GPUs that are idle, and that are being released."""
    row = state.nodes.by_name[name].row
    return int(state.nodes.idle[row, GPU]), int(state.nodes.releasing[row, GPU])


def test_a_pod_holds_all_that_it_asks_for_and_a_slot() -> None:
    state = settled(a_job("j", gpus=1, cpu="3"))
    before = state.nodes.idle[0].copy()
    state.ledger.holds.hold(task_of(state, "j-0"), state.nodes.nodes[0], (), releasing=False)
    taken = before - state.nodes.idle[0]
    assert (taken[GPU], taken[CPU], taken[PODS]) == (1, 3000, 1)
    state.ledger.holds.unhold(task_of(state, "j-0"))
    assert (state.nodes.idle[0] == before).all()


def test_a_pod_that_releases_what_it_holds_holds_it_still() -> None:
    state = settled(a_job("j", gpus=2))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.holds.hold(task, state.nodes.nodes[0], (), releasing=True)
    assert gpus(state) == (0, 2)
    ledger.holds.set_releasing(task, releasing=False)
    assert gpus(state) == (0, 0)
    ledger.holds.set_releasing(task, releasing=False)
    assert gpus(state) == (0, 0)
    ledger.holds.set_releasing(task, releasing=True)
    ledger.holds.unhold(task)
    assert gpus(state) == (2, 0)


def test_a_pod_that_is_promised_a_place_takes_of_what_is_released() -> None:
    state = settled(a_job("j", gpus=2))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.holds.pipeline(task, state.nodes.nodes[0], ())
    assert gpus(state) == (2, -2)
    ledger.holds.unpipeline(task)
    assert gpus(state) == (2, 0)


def test_a_pod_on_its_way_from_one_node_to_another_is_on_both() -> None:
    state = settled(a_job("j", gpus=2, on="n0"))
    task, ledger = task_of(state, "j-0"), state.ledger
    ledger.holds.set_releasing(task, releasing=True)
    ledger.holds.pipeline(task, state.nodes.by_name["n1"], ())
    assert (gpus(state, "n0"), gpus(state, "n1")) == ((0, 2), (2, -2))
    assert all(task.uid in node.tasks for node in state.nodes.nodes)
    ledger.holds.unpipeline(task)
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
    steps = [(ledger.holds.unhold, task) for task in held] + [
        (ledger.holds.unpipeline, task) for task in waits
    ]
    for task, what in zip(held, holders, strict=True):
        ledger.holds.hold(task, node, (DEVICE,), releasing=what == "leaves")
    for task in waits:
        ledger.holds.pipeline(task, node, (DEVICE,))
    assert gpus(state) == expected
    random.Random(count).shuffle(steps)
    for undo, task in steps:
        undo(task)
    assert (gpus(state), dict(node.groups)) == ((2, 0), {})


def test_a_claim_is_released_once_all_its_users_are_on_their_way_out() -> None:
    state = settled(a_gpu_claim("c", gpus=2), a_job("j", pods=2, spec=claiming("c")))
    ledger, node = state.ledger, state.nodes.nodes[0]
    one, other = task_of(state, "j-0"), task_of(state, "j-1")
    for task in (one, other):
        ledger.holds.hold(task, node, (), releasing=False)
    assert gpus(state) == (0, 0)
    ledger.holds.set_releasing(one, releasing=True)
    assert gpus(state) == (0, 0)
    ledger.holds.set_releasing(other, releasing=True)
    assert gpus(state) == (0, 2)
    ledger.holds.set_releasing(one, releasing=False)
    assert gpus(state) == (0, 0)
