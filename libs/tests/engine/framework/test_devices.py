"""Which devices of a node a pod gets that shares them."""

import hashlib
import random

import pytest

from kai.engine import Engine
from kai.engine.framework import devices
from kai.engine.kernel.room import free_centi
from kai.engine.kernel.view import NEVER
from kai.snapshot.resources import PODS
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, cycle, task_of
from libs.tests.engine.random_worlds import fuzz

SMALL = 16_000


def a_busy_node(rng):
    """A node with devices that are shared, being released, promised or reserved, and one pod to place."""
    running = rng.randint(0, 5)
    room = rng.choice([110, 2 * running, running + 2])
    found = [a_node("n", gpus=rng.randint(1, 4), gpu_memory_mib=SMALL, pods=room)]
    for number in range(running):
        size = {"fraction": rng.choice([0.2, 0.5, 0.7])} if rng.random() < 0.8 else {"gpus": 1}
        groups = (f"g{rng.randint(0, 2)}",) if "fraction" in size else ()
        leaving = NOW - 5 if rng.random() < 0.4 else 0
        found.append(a_job(f"r{number}", on="n", deleted=leaving, groups=groups, **size))
    wanted = rng.choice(
        [{"fraction": rng.choice([0.1, 0.5, 0.9])}, {"gpu_memory_mib": rng.choice([1, 9_000])}]
    )
    found.append(a_job("j", devices=rng.choice([0, 2, 3]), **wanted))
    return a_state(*found)


@fuzz
def test_a_node_is_able_only_where_its_devices_suffice_and_at_once_only_with_slots_for_reservations(world):
    state = a_busy_node(random.Random(world))
    session = Engine().open(state, NOW)
    task, (node,) = task_of(state, "j-0"), session.nodes.nodes
    chosen = devices.choose(session.nodes, node, task, options=session.options, wait=False)
    view = session.view(task.cls)
    view.refresh()
    able = view.score[node.row] != NEVER
    assert chosen is not None or not able
    assert able or chosen is None or state.nodes.cells_idle[node.row, PODS] < 10
    if chosen is not None and able:
        groups, now = chosen
        assert len(set(groups)) == task.cls.devices
        new = len([group for group in groups if group not in node.groups])
        assert not now or session.nodes.cells_idle[node.row, PODS] >= 1 + new
        assert not now or view.ready(node.row)


def test_the_ids_of_devices_are_made_without_sha1(monkeypatch):
    """And are the same for the same cluster, so that a cycle can be replayed."""
    monkeypatch.delattr(hashlib, "sha1")
    chosen = [
        cycle(a_state(a_node("n", gpus=2), a_job("j", fraction=0.5, devices=2))).binds[0].gpu_groups
        for _ in range(2)
    ]
    assert len(set(chosen[0])) == 2
    assert chosen[0] == chosen[1]


def test_a_pod_waits_until_there_is_a_slot_for_the_reservation_of_its_device_too():
    state = a_state(
        a_node("n", gpus=2, pods=3),
        a_job("stays", on="n"),
        a_job("leaves", on="n", deleted=NOW - 5),
        a_job("j", fraction=0.5),
    )
    session = Engine().open(state, NOW)
    (node,), task = session.nodes.nodes, task_of(state, "j-0")
    choice = devices.choose(session.nodes, node, task, options=session.options, wait=False)
    assert choice is not None
    assert choice[1] is False


@pytest.mark.parametrize(
    ("whose", "now", "group"),
    [
        pytest.param("q", False, "a", id="one's own queue: packed as the original packs"),
        pytest.param("other", True, "", id="another queue: as long as it likes"),
    ],
)
def test_a_pod_waits_for_a_device_that_its_own_queue_leaves_and_for_no_other(whose, now, group):
    state = a_state(
        [a_queue("q"), a_queue("other")],
        a_node("n", gpus=2, gpu_memory_mib=SMALL),
        a_job("stays", fraction=0.3, groups=("a",), on="n", queue="q"),
        a_job("leaves", fraction=0.5, groups=("a",), on="n", queue=whose, deleted=NOW - 5),
        a_job("j", fraction=0.5, queue="q"),
    )
    session = Engine().open(state, NOW)
    (node,) = session.nodes.nodes
    chosen, ready = devices.choose(
        session.nodes, node, task_of(state, "j-0"), options=session.options, wait=False
    )
    assert ready is now
    assert (chosen == ("a",)) is (group == "a")


@pytest.mark.parametrize(
    ("running", "parts", "whole"),
    [
        pytest.param([], [], 2, id="none is shared"),
        pytest.param([("a", 0.25, False)], [("a", 12_000)], 1, id="somebody stays"),
        pytest.param([("a", 0.25, True)], [], 2, id="one that all leave is a whole one"),
        pytest.param([("a", 0.25, True), ("a", 0.5, False)], [("a", 8_000)], 1, id="one of two leaves"),
        pytest.param(
            [("a", 0.25, False), ("b", 0.75, False)], [("a", 12_000), ("b", 4_000)], 0, id="two devices"
        ),
    ],
)
def test_each_device_is_free_as_a_part_or_as_a_whole_one_never_both(running, parts, whole):
    state = a_state(
        a_node("n", gpus=2, gpu_memory_mib=SMALL),
        [
            a_job(f"r{number}", fraction=part, groups=(group,), on="n", deleted=NOW - 5 if leaves else 0)
            for number, (group, part, leaves) in enumerate(running)
        ],
    )
    state.settle(NOW)
    (node,), table = state.nodes.nodes, state.nodes
    assert sorted(node.free_parts()) == parts
    assert table.cells_idle[node.row, 2] + table.cells_releasing[node.row, 2] == whole
    centi = 100 * whole + sum(100 * mib // SMALL for _, mib in parts)
    assert free_centi(table).tolist() == [centi]
