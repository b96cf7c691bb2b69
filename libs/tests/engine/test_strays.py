"""Pods that run while their label names no part of their group: they count all the same."""

import pytest

from kai.model.objects import SubGroup
from libs.tests.engine.builders import (
    Part,
    a_group,
    a_job,
    a_pod,
    a_queue,
    a_state,
    add,
    cycle,
    decided,
    job_of,
    nodes,
    outcomes,
)

SHARES = [
    a_queue("top"),
    a_queue("team", parent="top", gpu=1),
    a_queue("other", parent="top", gpu=0, limit=1),
]


def stray_pod(*, on: str = "n0"):
    return a_pod("tree-a-0", group="tree", gpus=1, node=on, sub_group="nonsense")


def other_parts():
    return a_group("tree", queue="other", sub_groups=[SubGroup(name="b", min_member=1)], priority="train")


def no_parts_before():
    return [a_pod("tree-a-0", group="tree", gpus=1, node="n0"), other_parts()]


CHANGES = [
    pytest.param(stray_pod, id="the pod is of a part that does not exist"),
    pytest.param(other_parts, id="the group has other parts"),
    pytest.param(no_parts_before, id="the group had no parts before"),
]


def changed(change, *more, count: int = 2):
    """A pod of a group with one part runs; then its owner changes something."""
    tree = a_job("tree", Part("a", on=["n0"]), gpus=1, queue="other")
    state = a_state(SHARES, nodes(count, gpus=1), tree, *more)
    add(state, change())
    return state


@pytest.mark.parametrize("change", CHANGES)
def test_its_queue_gets_no_more_than_its_limit(change) -> None:
    state = changed(change, a_job("more", gpus=1, queue="other"))
    assert decided(state).binds == {}


@pytest.mark.parametrize("change", CHANGES)
def test_whoever_has_a_right_to_its_place_takes_it(change) -> None:
    state = changed(change, a_job("j", gpus=1, queue="team"), count=1)
    found = decided(state)
    assert (found.evicts, found.waits) == ({"tree-a-0"}, {"j-0": "n0"})


def test_one_that_waits_is_told_and_gets_no_place() -> None:
    state = changed(lambda: stray_pod(on=""))
    result = cycle(state)
    assert not result.binds
    assert outcomes(result)["tree"].invalid_pods == ("default/tree-a-0",)


def test_a_pod_that_is_decided_about_counts_where_it_was_put() -> None:
    tree = a_job("tree", Part("a"), gpus=1, queue="other")
    state = a_state(SHARES, nodes(1, gpus=1), tree)
    assert decided(state).binds == {"tree-a-0": "n0"}
    add(state, stray_pod(on=""))
    state.check()
    assert job_of(state, "tree").active_allocated == 1


def test_what_is_left_of_a_group_with_no_tree_is_charged_too() -> None:
    circle = [SubGroup(name="a", parent="b"), SubGroup(name="b", parent="a")]
    state = changed(
        lambda: a_group("tree", queue="other", sub_groups=circle), a_job("more", gpus=1, queue="other")
    )
    assert decided(state).binds == {}
