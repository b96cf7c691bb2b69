"""A claim stays reserved for a moment after its pod is gone, until the claim controller comes by."""

import pytest

from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_node, a_queue, a_running, a_single, a_state, claiming, cycle
from libs.tests.engine.dra.builders import a_claim, a_class, a_slice, in_cluster

WAITS, RUNS, LEFT = "ours", "stays", "gone"


def a_cluster(*more, users=(LEFT,)):
    """Two devices: a pod that runs has one, a claim the other, still for ``users``; another pod waits."""
    return a_state(
        a_queue("top"),
        a_queue("theirs", parent="top", gpu=0),
        a_queue("ours", parent="top", gpu=2),
        a_node("n1", gpus=0),
        in_cluster(
            a_class("gpu"),
            a_slice("n1", 2),
            a_claim("c-stays", queue="theirs", users=["ns-stays-0"], holds=["gpu-0"], node="n1"),
            a_claim("c-gone", queue="theirs", users=users, holds=["gpu-1"], node="n1"),
            a_claim("c-ours", queue="ours"),
        ),
        a_running(RUNS, on="n1", gpus=0, queue="theirs", namespace="ns", spec=claiming("c-stays")),
        a_single(WAITS, queue="ours", namespace="ns", spec=claiming("c-ours")),
        *more,
    )


def test_nobody_else_gives_up_a_device_for_one_that_is_about_to_be_free():
    state = a_cluster()
    result = cycle(state)
    assert not result.evictions
    assert [each.pod.name for each in result.nominations] == [WAITS]


def test_it_is_bound_once_the_device_is_given_back():
    state = a_cluster()
    cycle(state)
    state.remove(Kind.RESOURCE_CLAIM, "ns/c-gone")
    assert [bind.pod.name for bind in cycle(state).binds] == [WAITS]


def test_what_ends_of_itself_leaves_its_device_too():
    ended = a_single("done", queue="theirs", namespace="ns", spec=claiming("c-gone"))
    ended[1].status.phase = "Succeeded"
    state = a_cluster(ended, users=["ns-done"])
    result = cycle(state)
    assert not result.evictions
    assert [each.pod.name for each in result.nominations] == [WAITS]


@pytest.mark.parametrize("users", [["ns-other"], [LEFT, "ns-other"]], ids=["its only user", "one of two"])
def test_a_pod_of_another_scheduler_keeps_its_device(users):
    other = a_single("other", on="n1", namespace="ns", scheduler="default-scheduler", spec=claiming("c-gone"))
    state = a_cluster(other[1:], users=users)
    assert [each.pod.name for each in cycle(state).evictions] == [f"{RUNS}-0"]


def test_a_pod_that_cannot_be_taken_in_keeps_its_device():
    state = a_cluster(users=["unread"])
    state.unread(Kind.POD, "ns/unread", uid="unread", reason="nested too deep")
    assert [each.pod.name for each in cycle(state).evictions] == [f"{RUNS}-0"]


def test_users_that_are_no_pods_keep_it():
    state = a_cluster()
    claim = state.objects[Kind.RESOURCE_CLAIM]["ns/c-gone"]
    claim["status"]["reservedFor"][0]["resource"] = "tenants"
    state.apply(Kind.RESOURCE_CLAIM, claim)
    assert [each.pod.name for each in cycle(state).evictions] == [f"{RUNS}-0"]


def test_who_shares_a_claim_that_waits_for_a_device_waits_too():
    state = a_cluster(a_single("second", queue="ours", namespace="ns", spec=claiming("c-ours")))
    result = cycle(state)
    assert not result.binds
    assert sorted(each.pod.name for each in result.nominations) == [WAITS, "second"]
    state.remove(Kind.RESOURCE_CLAIM, "ns/c-gone")
    assert sorted(bind.pod.name for bind in cycle(state).binds) == [WAITS, "second"]
