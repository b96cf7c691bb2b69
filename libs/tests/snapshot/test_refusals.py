"""Which nodes are left alone after they refused pods."""

from msgspec.structs import replace

from kai.bench.objects import a_node
from kai.snapshot.refusals import FIRST_SECONDS, IN_A_ROW, LONGEST_SECONDS, Refusals
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0


def refuse(refusals, namespace="team", *, times=IN_A_ROW, now=NOW, node="n"):
    for _ in range(times):
        until = refusals.refused(node, namespace=namespace, now=now)
    return until


def test_a_node_that_refuses_now_and_then_stays_open():
    refusals = Refusals()
    for i in range(10):
        assert refuse(refusals, times=IN_A_ROW - 1, now=NOW + i) == 0
        refusals.ran("n", namespace="team")
    assert refusals.closed(NOW) == {}
    assert not refusals


def test_refusals_in_a_row_close_it_to_their_namespace_for_a_while():
    refusals = Refusals()
    assert refuse(refusals) == NOW + FIRST_SECONDS
    assert refusals.closed(NOW) == {"team": {"n": NOW + FIRST_SECONDS}}
    assert refusals.closed(NOW + FIRST_SECONDS) == {}


def test_pods_that_were_on_their_way_prolong_nothing():
    refusals = Refusals()
    until = refuse(refusals)
    assert refuse(refusals, times=20, now=NOW + 1) == until


def test_each_time_it_is_closed_for_longer_until_a_pod_runs():
    refusals, now, pauses = Refusals(), NOW, []
    refuse(refusals, times=IN_A_ROW - 1)
    for _ in range(8):
        until = refuse(refusals, times=1, now=now)
        pauses.append(until - now)
        now = until
    assert pauses == [30, 60, 120, 240, 480, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]
    refusals.ran("n", namespace="team")
    assert refuse(refusals, now=now) == now + FIRST_SECONDS


def test_one_that_refuses_for_weeks_stays_closed_as_long_each_time():
    refusals, now = Refusals(), NOW
    refuse(refusals, times=IN_A_ROW - 1)
    for _ in range(3000):
        now = refuse(refusals, times=1, now=now)
    assert refuse(refusals, times=1, now=now) == now + LONGEST_SECONDS


def test_no_namespace_alone_closes_a_node_to_others():
    refusals = Refusals()
    refuse(refusals, "a", times=100)
    assert set(refusals.closed(NOW)) == {"a"}
    refuse(refusals, "b", now=NOW + 1)
    assert refusals.closed(NOW + 1)[""] == {"n": NOW + 1 + FIRST_SECONDS}


def test_a_pod_of_anybody_that_runs_there_opens_it_to_all_but_those_who_were_refused():
    """Two namespaces may be one tenant's, whose pods are refused by his own doing."""
    refusals, now = Refusals(), NOW
    for namespace in ("a", "b"):
        refuse(refusals, namespace)
    refusals.ran("n", namespace="c")
    assert set(refusals.closed(NOW)) == {"a", "b"}
    for _ in range(IN_A_ROW - 1):
        now = max(refuse(refusals, namespace, times=1, now=now + LONGEST_SECONDS) for namespace in ("a", "b"))
        assert "" not in refusals.closed(now - 1)
    for namespace in ("a", "b"):
        refuse(refusals, namespace, times=1, now=now)
    assert set(refusals.closed(now)) == {"", "a", "b"}


def test_what_is_the_pods_own_fault_closes_no_node_to_others():
    refusals = Refusals()
    for namespace in ("a", "b", "c"):
        for _ in range(IN_A_ROW):
            refusals.refused("n", namespace=namespace, now=NOW, own_fault=True)
    assert set(refusals.closed(NOW)) == {"a", "b", "c"}
    again = Refusals()
    again.tell(refusals.told(), refusals.unbroken())
    assert again.closed(NOW) == refusals.closed(NOW)


def test_nodes_that_are_gone_or_were_left_alone_for_long_are_forgotten():
    refusals = Refusals()
    refuse(refusals, node="gone")
    refuse(refusals, node="old")
    refusals.forget("gone")
    assert set(refusals.closed(NOW)["team"]) == {"old"}
    assert refusals.closed(NOW + FIRST_SECONDS + LONGEST_SECONDS + 1) == {}
    assert not refusals


def test_a_machine_that_replaces_another_one_under_its_name_is_closed_to_nobody():
    state, node = ClusterState(), a_node("n", gpus=8)
    state.apply(Kind.NODE, node)
    for namespace in ("a", "b"):
        refuse(state.refusals, namespace)
    state.apply(Kind.NODE, replace(node, metadata=replace(node.metadata, labels={"rack": "another"})))
    assert set(state.refusals.closed(NOW)) == {"", "a", "b"}
    state.apply(Kind.NODE, replace(node, metadata=replace(node.metadata, uid="another")))
    assert state.refusals.closed(NOW) == {}


def test_after_the_clock_went_back_a_node_is_closed_for_no_longer_than_at_most():
    refusals, before = Refusals(), NOW - 86_400
    refuse(refusals)
    assert refusals.closed(before) == {"team": {"n": before + LONGEST_SECONDS}}
    assert refusals.closed(before + LONGEST_SECONDS) == {}
