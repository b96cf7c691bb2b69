"""A pod that must be near another one begins no sooner than that one, which may never come."""

from typing import Any

import pytest

from kai.engine import Engine
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_job, a_node, a_pod, a_state, read

LEADER = {"app": "leader"}
OLD_LEAVES = a_pod("old-0", group="old", gpus=8, node="a", deleted=NOW)


def near(*keys: str, **labels: str) -> dict[str, Any]:
    """Near leaders in the domains of these keys, and near those of each label in the domain of its key."""
    wanted = [(key, LEADER) for key in keys] + [(key, {"app": app}) for key, app in labels.items()]
    terms = [{"labelSelector": {"matchLabels": about}, "topologyKey": key} for key, about in wanted]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def a_rack(*more: Any) -> ClusterState:
    """The leader may only be on node a, which a lower job has; beside it is room for who wants it near."""
    return a_state(
        a_node("a", gpus=8, labels={"rack": "r", "at": "a"}),
        a_node("b", gpus=4, labels={"rack": "r"}),
        a_job("old", on="a", gpus=8, priority="train"),
        a_job("leader", gpus=8, priority="build", labels=LEADER, spec={"node_selector": {"at": "a"}}),
        a_job("follower", gpus=1, priority="train", created=9, spec=near("rack")),
        *more,
    )


def test_who_must_be_near_a_pod_that_waits_for_room_waits_with_it_and_begins_with_it() -> None:
    engine, state = Engine(), a_rack()
    first = read(engine.run(state, NOW))
    assert (first.evicts, first.binds, first.waits) == ({"old-0"}, {}, {"leader-0": "a"})

    state.apply(Kind.POD, OLD_LEAVES)
    second = read(engine.run(state, NOW + 1))
    assert (second.evicts, second.binds) == (frozenset(), {})
    assert second.waits == {"leader-0": "a", "follower-0": "b"}

    state.remove(Kind.POD, "default/old-0")
    last = read(engine.run(state, NOW + 2))
    assert last.binds == {"leader-0": "a", "follower-0": "b"}


def test_who_has_one_of_them_near_already_does_not_wait_for_the_other() -> None:
    state = a_rack(a_job("there", on="b", gpus=1, labels=LEADER))
    state.apply(Kind.POD, OLD_LEAVES)
    found = read(Engine().run(state, NOW))
    assert (found.binds, found.waits) == ({"follower-0": "b"}, {"leader-0": "a"})


@pytest.mark.parametrize("label", [{}, {"app": "other"}], ids=["without labels", "of another kind"])
def test_who_wants_his_own_kind_near_and_is_the_first_waits_for_nobody(label: dict[str, str]) -> None:
    state = a_state(
        a_node("a", gpus=8, labels={"rack": "r", "at": "a"}),
        a_node("b", gpus=4, labels={"rack": "r"}),
        a_job("old", on="a", gpus=8, priority="train"),
        a_job("leader", gpus=8, priority="build", labels=label, spec={"node_selector": {"at": "a"}}),
        a_job("first", gpus=1, priority="train", created=9, labels=LEADER, spec=near("rack")),
    )
    state.apply(Kind.POD, OLD_LEAVES)
    assert read(Engine().run(state, NOW)).binds == {"first-0": "b"}


def test_a_pod_of_his_kind_where_there_is_no_such_domain_does_not_keep_the_first_waiting() -> None:
    state = a_state(
        a_node("a", gpus=8, labels={"rack": "r"}),
        a_node("b", gpus=8),
        a_job("other", on="b", gpus=8, labels=LEADER),
        a_job("first", gpus=1, labels=LEADER, spec=near("rack")),
        a_job("second", gpus=1, created=1, labels=LEADER, spec=near("rack")),
    )
    assert read(Engine().run(state, NOW)).binds == {"first-0": "a", "second-0": "a"}


@pytest.mark.parametrize(
    ("there", "new", "terms", "expected"),
    [
        pytest.param([], LEADER, near("rack", "zone"), "a", id="the first, of all terms"),
        pytest.param([], LEADER, near("zone", rack="other"), "", id="the first, of one term"),
        pytest.param([("b", "other")], LEADER, near("zone", rack="other"), "", id="one for the other term"),
        pytest.param([("b", "leader")], LEADER, near("rack", "zone"), "b", id="there is one"),
        pytest.param([("z", "leader")], LEADER, near("rack", "zone"), "", id="one in the zone, in no rack"),
        pytest.param([("n", "leader")], LEADER, near("rack", "zone"), "a", id="one in neither"),
        pytest.param(
            [("b", "leader"), ("b", "other")], {}, near("zone", rack="other"), "", id="one for each"
        ),
    ],
)
def test_who_must_be_near_by_several_terms_goes_by_pods_that_all_are_about(
    there: list[tuple[str, str]], new: dict[str, str], terms: dict[str, Any], expected: str
) -> None:
    """As with kube-scheduler: a pod that one term is about says nothing of where another one holds."""
    state = a_state(
        a_node("a", gpus=4, labels={"rack": "r", "zone": "east"}),
        a_node("b", gpus=2, labels={"rack": "s", "zone": "west"}),
        a_node("n", gpus=2),
        a_node("z", gpus=2, labels={"zone": "east"}),
        [
            a_job(f"old{number}", on=node, gpus=1, labels={"app": app})
            for number, (node, app) in enumerate(there)
        ],
        a_job("new", gpus=0, labels=new, spec=terms),
    )
    assert read(Engine().run(state, NOW)).binds == ({"new-0": expected} if expected else {})


def test_who_came_in_this_cycle_is_company_also_for_those_who_ask_after_others_did() -> None:
    state = a_state(
        [a_node(name, gpus=2, labels={"rack": name}) for name in ("a", "b")],
        a_job("other", on="a", gpus=1, labels={"app": "other"}),
        a_job("asks", gpus=1, spec=near(rack="other")),
        a_job("leader", gpus=1, created=1, labels=LEADER),
        a_job("follower", gpus=1, created=2, spec=near("rack")),
    )
    assert read(Engine().run(state, NOW)).binds == {"asks-0": "a", "leader-0": "b", "follower-0": "b"}


def test_who_repels_others_waits_for_none_where_nodes_have_no_such_domain() -> None:
    term = {"labelSelector": {"matchLabels": LEADER}, "topologyKey": "rack"}
    repels = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    leaves = a_pod("leaves-0", group="leaves", gpus=8, node="a", labels=LEADER, deleted=NOW)
    state = a_state(
        a_node("a", gpus=8),
        a_node("b", gpus=8),
        a_job("leaves", on="a", gpus=8, labels=LEADER),
        a_job("new", gpus=1, spec=repels),
    )
    state.apply(Kind.POD, leaves)
    assert read(Engine().run(state, NOW)).binds == {"new-0": "b"}
