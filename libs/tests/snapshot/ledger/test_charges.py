"""What queues are charged for pods."""

import pytest

from libs.tests.engine.builders import a_job, a_queue, task_of
from libs.tests.snapshot.ledger.cluster import charges, settled


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
    state.ledger.charges.charge(task, 16_000)
    assert charges(state) == {"top": (2, fixed), "mid": (2, fixed), "a": (2, fixed), "b": (0, 0)}
    charged = task.charged
    state.ledger.charges.discharge(task)
    assert task.charged is None
    assert set(charges(state).values()) == {(0, 0)}
    state.ledger.charges.recharge(task, charged)
    assert charges(state)["top"] == (2, fixed)


def test_memory_of_a_device_is_charged_by_the_device_where_it_is_taken() -> None:
    state = settled(a_job("j", gpu_memory_mib=8_000))
    task = task_of(state, "j-0")
    for memory, share in ((16_000, 0.5), (32_000, 0.25)):
        state.ledger.charges.charge(task, memory)
        assert charges(state)["team"] == (share, 0)
        state.ledger.charges.discharge(task)
