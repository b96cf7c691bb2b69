"""Which pods hold devices though they are nowhere."""

from kai.model import names
from kai.snapshot.idle_claims import IdleReservation, idle_reservations
from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    a_group,
    a_node,
    a_pod,
    a_queue,
    a_running,
    a_single,
    a_state,
    add,
    claiming,
    cycle,
)
from libs.tests.engine.dra.builders import a_claim, a_class, a_slice, in_cluster

LEFT = IdleReservation("ns", "c", ("ns-waits",))


def two_nodes(*more, users=("ns-waits",), cordoned=True, queue="team"):
    """A claim with a device of ``n1``, which takes no pods; ``waits`` wants it."""
    node = a_node("n1", gpus=0)
    node.spec.unschedulable = cordoned
    return a_state(
        a_queue("team"),
        a_queue("full", gpu=0, limit=0),
        node,
        a_node("n2", gpus=0),
        in_cluster(
            a_class("gpu"),
            a_slice("n1", 1),
            a_slice("n2", 1),
            a_claim("c", queue=queue, users=users, holds=["gpu-0"], node="n1"),
        ),
        a_single("waits", queue=queue, namespace="ns", spec=claiming("c")),
        *more,
    )


def test_a_pod_that_waits_holds_what_an_attempt_to_bind_has_left():
    state = two_nodes()
    assert not cycle(state).binds
    assert idle_reservations(state) == [LEFT]
    assert idle_reservations(state, under_way={"ns-waits"}) == []


def test_once_it_is_given_back_the_pod_may_go_elsewhere():
    state = two_nodes()
    cycle(state)
    [(kind, given_back)] = in_cluster(a_claim("c", queue="team"))
    state.apply(kind, given_back)
    assert [(bind.pod.name, bind.node) for bind in cycle(state).binds] == [("waits", "n2")]


def test_a_pod_that_its_queue_keeps_waiting_holds_nothing_either():
    state = two_nodes(cordoned=False, queue="full")
    cycle(state)
    assert idle_reservations(state) == [LEFT]


def test_who_is_being_bound_runs_or_is_not_ours_keeps_his():
    state = two_nodes(cordoned=False)
    assert [bind.node for bind in cycle(state).binds] == ["n1"]
    assert idle_reservations(state) == []
    runs = two_nodes(a_running("r", on="n1", gpus=0, namespace="ns", spec=claiming("c")), users=["ns-r-0"])
    other = a_single("other", namespace="ns", scheduler="default-scheduler", spec=claiming("c"))
    add(runs, other[1:])
    cycle(runs)
    assert idle_reservations(runs) == []
    foreign = two_nodes(other[1:], users=["ns-other", "ns-gone"])
    cycle(foreign)
    assert idle_reservations(foreign) == []


def test_of_several_users_only_those_without_a_place_are_named():
    state = two_nodes(
        a_running("r", on="n1", gpus=0, namespace="ns", spec=claiming("c")), users=["ns-r-0", "ns-waits"]
    )
    cycle(state)
    assert idle_reservations(state) == [LEFT]


def test_a_pod_that_waits_for_a_certain_node_keeps_what_it_has_there():
    leaving = a_running("old", on="n1", gpus=0, cpu="8", namespace="ns", deleted=1)
    state = two_nodes(leaving, cordoned=False)
    task = next(task for task in state.tasks.values() if task.name == "waits")
    task.nominated = "n1"
    assert idle_reservations(state) == []
    state.remove(Kind.POD, "ns/waits")
    assert idle_reservations(state) == []


def test_a_pod_of_a_group_of_another_node_pool_keeps_what_it_has():
    """Its own scheduler may have had it bound there, which we do not see before it is."""
    state = two_nodes(a_pod("runs", group="waits", namespace="ns", node="n2"))
    assert idle_reservations(state) == [LEFT]
    group = a_group("waits", queue="team", namespace="ns")
    group.metadata.labels = {names.NODE_POOL_LABEL: "elsewhere"}
    add(state, [(Kind.POD_GROUP, group)])
    cycle(state)
    assert state.jobs["ns/waits"].elsewhere
    assert idle_reservations(state) == []
