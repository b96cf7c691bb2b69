"""A node may offer some of its GPUs by a device plugin and others to claims: each in its own number."""

import pytest

from libs.tests.engine.builders import (
    a_node,
    a_queue,
    a_single,
    a_state,
    add,
    bound,
    claiming,
    cycle,
    decided,
    leaving,
    outcomes,
    read,
    running,
    urgent,
)
from libs.tests.engine.dra.builders import a_claim, a_class, a_request, a_slice, in_cluster

TEAM = {"queue": "team", "namespace": "default"}


def both(*things, plugin=2, claims=2):
    """The state of a world with one node, of which a device plugin and a driver have GPUs each."""
    return a_state(a_node("n0", gpus=plugin), in_cluster(a_slice("n0", claims), a_class()), *things)


def user(name, claim, **more):
    """Whoever has, or waits for, one of the driver's."""
    claims = in_cluster(a_claim(claim, a_request(), **TEAM))
    return [claims, a_single(name, gpus=0, spec=claiming(claim), **more)]


def test_a_device_plugin_gives_no_more_than_it_has():
    state = both([a_single(f"p{number}", gpus=1, created=number) for number in range(4)])
    result = cycle(state)
    assert bound(result) == {"p0": "n0", "p1": "n0"}
    assert "Insufficient GPUs beside those for resource claims" in outcomes(result)["p2"].message
    state.check()


def test_claims_find_the_others_whoever_came_first():
    state = both([a_single(f"p{number}", gpus=1, created=number) for number in range(4)], user("c", "one"))
    assert decided(state).binds == {"p0": "n0", "p1": "n0", "c": "n0"}


def test_a_gang_is_placed_as_a_whole_or_not_at_all():
    state = both(urgent("gang", pods=3), a_single("low", gpus=1))
    assert decided(state).binds == {"low": "n0"}


@pytest.mark.parametrize("more", [0, 1])
def test_who_makes_room_is_who_has_one_of_them(more):
    """With one free of the driver's, too, it is one of the plugin's that is waited for."""
    state = both(running(2, gpus=1), urgent("u"), claims=1 + more)
    found = decided(state)
    assert found.binds == {}
    assert (found.evicts, found.waits) == ({"r1-0"}, {"u-0": "n0"})
    state.check()


def test_a_pod_waits_for_one_that_is_being_given_up():
    """The kubelet counts it until it is gone, and would refuse the pod."""
    state = both(leaving("old", on="n0", gpus=1), running(1, gpus=1), a_single("new", gpus=1, created=9))
    found = decided(state)
    assert (found.binds, found.waits) == ({}, {"new": "n0"})


def test_one_that_is_free_is_given_beside_one_that_is_being_given_up():
    state = both(leaving("old", on="n0", gpus=1), a_single("new", gpus=1, created=9))
    assert decided(state).binds == {"new": "n0"}


def test_who_finds_them_taken_goes_elsewhere():
    state = both(running(2, gpus=1), a_single("new", gpus=1, created=9))
    add(state, a_node("n1", gpus=1))
    assert decided(state).binds == {"new": "n1"}


def test_nobody_is_reclaimed_for_devices_that_only_claims_find():
    """One may be taken, and one is free, but that is not the plugin's."""
    state = both(
        a_queue("a", gpu=1),
        a_queue("b", gpu=2),
        a_single("kept", gpus=1, on="n0", queue="a"),
        a_single("lost", gpus=1, on="n0", queue="a", created=1),
        a_single("new", gpus=2, queue="b", created=2),
        claims=1,
    )
    result = cycle(state)
    assert read(result).evicts == set()
