"""Preferences beside each other, among the pods of one cycle, and against all else that orders nodes."""

from collections import Counter

import pytest

from kai.config.plugin_table import DEFAULT_PLUGINS
from kai.engine import Engine, SchedulerConfig
from kai.engine.neighbourhood.affinity import PodAffinity
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_group

from .cluster import (
    AVOID,
    HOSTNAME,
    LABELS,
    NOW,
    PACKED,
    REQUESTS,
    ZONE_A,
    ZONE_B,
    X,
    ask,
    away,
    chosen,
    goes,
    hard,
    is_in,
    near,
    placed,
    rather_on,
    rows,
    spread,
    spreads,
    term,
    two_zones,
    with_spec,
)

TOGETHER = {
    "avoiding a taint weighs more than a label": (
        {"spec": rather_on((100, is_in("zone", "a"))), "taints": {name: [AVOID] for name in ZONE_A}},
        ZONE_B,
    ),
    "a label and a neighbour weigh more than a taint": (
        {
            "running": [("node-1", X)],
            "spec": {
                "affinity": {
                    "nodeAffinity": rather_on((1, is_in("cores", "16")))["affinity"]["nodeAffinity"],
                    "podAffinity": near((1, term()))["affinity"]["podAffinity"],
                }
            },
            "taints": {"node-1": [AVOID]},
        },
        {"node-1"},
    ),
    "among many neighbours each weighs less": (
        {
            "running": [*[("node-1", X)] * 5, ("node-3", X)],
            "spec": {
                "affinity": {
                    "podAffinity": near((100, term()))["affinity"]["podAffinity"],
                    "nodeAffinity": rather_on((1, is_in("zone", "b")))["affinity"]["nodeAffinity"],
                }
            },
        },
        {"node-3"},
    ),
}


@pytest.mark.parametrize(("request_", "case", "expected"), rows(TOGETHER))
def test_kinds_of_preference_weigh_as_in_kube_scheduler(request_, case, expected):
    goes(request_, case, expected)


@pytest.mark.parametrize(
    "case",
    [
        {"running": [("node-0", X)], "spec": away((100, term()))},
        {"running": [("node-2", X, with_spec(near((100, term("new")))))]},
        {"spec": rather_on((100, is_in("zone", "b")))},
        {"taints": {"node-0": [AVOID]}},
        {"running": [("node-0", X)], "spec": spreads(spread())},
    ],
)
def test_without_the_plugin_nothing_is_preferred(case):
    on = ", ".join(f"{{name: {name}}}" for name in DEFAULT_PLUGINS if name != "podaffinity")
    config = SchedulerConfig.parse(f"tiers: [{{plugins: [{on}]}}]")
    assert chosen("a GPU", case) != PACKED
    assert chosen("a GPU", case, config) == PACKED


GANG = {
    "away from each other": (away((1, term("gang"))), {}, [1, 1, 1, 1]),
    "away from each other by zone": (away((1, term("gang", key="zone"))), {}, "zones 2 2"),
    "near each other": (near((1, term("gang", key="zone"))), {}, "one zone"),
    "spread over nodes": (spreads(spread("gang", key=HOSTNAME)), {}, [1, 1, 1, 1]),
    "spread over zones": (spreads(spread("gang")), {}, "zones 2 2"),
    "must spread over nodes": (hard("gang", key=HOSTNAME), {}, [1, 1, 1, 1]),
    "must spread over zones": (hard("gang"), {}, "zones 2 2"),
    "prefers a label": (rather_on((1, is_in("zone", "b"))), {}, "zone b"),
    "avoids a taint": ({}, {"node-0": [AVOID], "node-1": [AVOID]}, "zone b"),
    "prefers nothing": ({}, {}, "node-0"),
}


def holds(binds, expected):
    count = Counter(binds.values())
    zones = Counter(LABELS[node]["zone"] for node in binds.values())
    match expected:
        case "zones 2 2":
            return zones == {"a": 2, "b": 2}
        case "one zone":
            return len(zones) == 1
        case "zone b":
            return set(zones) == {"b"}
        case "node-0":
            return set(count) == {"node-0"}
    return sorted(count.values()) == expected


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("together", [True, False], ids=["one gang", "four groups"])
@pytest.mark.parametrize(("spec", "taints", "expected"), GANG.values(), ids=GANG.keys())
def test_pods_of_one_cycle_count_for_each_other(request_, together, spec, taints, expected):
    state = two_zones(request_, taints=taints)
    for number in range(4):
        group = "gang" if together else f"gang-{number}"
        if not together or not number:
            state.apply(
                Kind.POD_GROUP, a_group(group, queue="team", min_member=4 if together else 1, created=1)
            )
        ask(state, f"gang-{number}", request_, spec, group=group, labels={"app": "gang"})
    binds = placed(state)
    assert len(binds) == 4
    assert holds(binds, expected), binds


def test_a_preference_gives_way_where_there_is_no_room():
    state = two_zones("a claim")
    state.apply(Kind.POD_GROUP, a_group("gang", queue="team", min_member=20, created=1))
    for number in range(20):
        ask(state, f"gang-{number}", "a claim", rather_on((1, is_in("zone", "b"))), group="gang", labels={})
    count = Counter(LABELS[node]["zone"] for node in placed(state).values())
    assert count == {"b": 16, "a": 4}


def test_the_node_that_was_promised_comes_before_any_that_is_preferred():
    state = two_zones("a GPU", running=[("node-2", X)])
    state.apply(Kind.POD_GROUP, a_group("new", queue="team", created=1))
    ask(state, "new", "a GPU", near((100, term())), group="new", labels={"app": "new"})
    state.task("default/new").nominated = "node-3"
    assert placed(state) == {"new": "node-3"}


@pytest.mark.parametrize("spec", [away((1, term("dns"))), near((1, term("dns")))], ids=["away", "near"])
def test_pods_of_others_that_speak_of_their_own_namespace_cost_nothing(spec):
    running = [("node-2", {"app": "dns"}, {"namespace": "other", "scheduler": "theirs", "spec": spec})]
    state = two_zones("a GPU", running=running)
    state.apply(Kind.POD_GROUP, a_group("new", queue="team", created=1))
    ask(state, "new", "a GPU", {}, group="new", labels={"app": "dns"})
    state.remove(Kind.POD_GROUP, "other/run-0")
    session = Engine().open(state, NOW)
    assert session.plugins.of(PodAffinity) is None
    assert session.plain(state.task("default/new").cls)


@pytest.mark.parametrize("more", [{"namespaces": ["default"]}, {"namespaceSelector": {}}])
def test_pods_of_others_that_speak_of_ours_are_heard(more):
    wish = near((1, term("new", **more)))
    running = [("node-2", {"app": "dns"}, {"namespace": "other", "scheduler": "theirs", "spec": wish})]
    assert chosen("a GPU", {"running": running}) == {"node-2"}
