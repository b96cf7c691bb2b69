"""Preferred affinity and anti-affinity between pods, in both directions, as kube-scheduler has them."""

import pytest

from .cluster import (
    ELSEWHERE,
    NODES,
    PACKED,
    REQUIRED,
    ZONE_B,
    X,
    away,
    goes,
    is_in,
    near,
    other,
    rows,
    term,
    with_spec,
)

POD_AFFINITY = {
    "nothing preferred": ({}, PACKED),
    "away from a pod on the node": ({"running": [("node-0", X)], "spec": away((1, term()))}, ELSEWHERE),
    "away from a pod in the zone": (
        {"running": [("node-0", X)], "spec": away((1, term(key="zone")))},
        ZONE_B,
    ),
    "away where all nodes have one": (
        {"running": [(node, X) for node in NODES], "spec": away((100, term()))},
        PACKED,
    ),
    "away from the fewest": (
        {"running": [("node-0", X), ("node-0", X), *((n, X) for n in NODES)], "spec": away((1, term()))},
        ELSEWHERE,
    ),
    "near a pod on a node": ({"running": [("node-2", X)], "spec": near((1, term()))}, {"node-2"}),
    "near a pod in a zone": ({"running": [("node-3", X)], "spec": near((1, term(key="zone")))}, ZONE_B),
    "near nobody there is": ({"spec": near((100, term()))}, PACKED),
    "the larger weight": (
        {
            "running": [("node-1", X), ("node-2", {"app": "y"})],
            "spec": near((10, term()), (50, term("y"))),
        },
        {"node-2"},
    ),
    "several pods of a term": (
        {
            "running": [("node-3", X), ("node-3", X), ("node-1", {"app": "y"})],
            "spec": near((10, term()), (15, term("y"))),
        },
        {"node-3"},
    ),
    "near one and away from another": (
        {
            "running": [("node-2", X), ("node-3", X), ("node-2", {"app": "y"})],
            "spec": {
                "affinity": {
                    "podAffinity": near((10, term()))["affinity"]["podAffinity"],
                    "podAntiAffinity": away((5, term("y")))["affinity"]["podAntiAffinity"],
                }
            },
        },
        {"node-3"},
    ),
    "a key that no node has": ({"running": [("node-2", X)], "spec": near((9, term(key="row")))}, PACKED),
    "a key that some nodes have": (
        {"running": [("node-2", X)], "spec": near((9, term(key="rack")))},
        {"node-2"},
    ),
    "no selector": ({"running": [("node-2", X)], "spec": near((9, term(None)))}, PACKED),
    "an empty selector": (
        {"running": [("node-2", X), ("node-2", {})], "spec": near((9, term({})))},
        {"node-2"},
    ),
    "an expression": (
        {
            "running": [("node-2", X)],
            "spec": near((9, term({"matchExpressions": [is_in("app", "x", "y")]}))),
        },
        {"node-2"},
    ),
    "pods of other schedulers": (
        {"running": [("node-2", X, {"scheduler": "default-scheduler"})], "spec": near((9, term()))},
        {"node-2"},
    ),
    "pods of other namespaces": ({"running": [("node-2", X, other())], "spec": near((9, term()))}, PACKED),
    "a namespace by name": (
        {"running": [("node-2", X, other())], "spec": near((9, term(namespaces=["other"])))},
        {"node-2"},
    ),
    "namespaces by labels": (
        {
            "running": [("node-2", X, other()), ("node-1", X)],
            "spec": near((9, term(namespaceSelector={"matchLabels": {"kind": "other"}}))),
        },
        {"node-2"},
    ),
    "all namespaces": (
        {"running": [("node-2", X, other())], "spec": near((9, term(namespaceSelector={})))},
        {"node-2"},
    ),
    "no namespace has the labels": (
        {
            "running": [("node-2", X, other())],
            "spec": near((9, term(namespaceSelector={"matchLabels": {"kind": "none"}}))),
        },
        PACKED,
    ),
    "pods of the same revision": (
        {
            "running": [("node-2", X | {"rev": "1"}), ("node-3", X | {"rev": "2"})],
            "spec": near((9, term(matchLabelKeys=["rev"]))),
            "labels": {"app": "new", "rev": "2"},
        },
        {"node-3"},
    ),
    "pods of another tenant": (
        {
            "running": [("node-0", X | {"tenant": "b"}), ("node-1", X | {"tenant": "a"})],
            "spec": away((9, term(mismatchLabelKeys=["tenant"]))),
            "labels": {"app": "new", "tenant": "a"},
        },
        ELSEWHERE,
    ),
    "a running pod wants it away": (
        {"running": [("node-0", X, with_spec(away((1, term("new")))))]},
        ELSEWHERE,
    ),
    "a running pod wants it near": (
        {"running": [("node-2", X, with_spec(near((1, term("new")))))]},
        {"node-2"},
    ),
    "a running pod needs such pods near": (
        {"running": [("node-2", X, with_spec({"affinity": {"podAffinity": {REQUIRED: [term("new")]}}}))]},
        {"node-2"},
    ),
    "a running pod prefers it more than another needs it": (
        {
            "running": [
                ("node-2", X, with_spec({"affinity": {"podAffinity": {REQUIRED: [term("new")]}}})),
                ("node-3", X, with_spec(near((2, term("new"))))),
            ]
        },
        {"node-3"},
    ),
    "a running pod speaks of others": (
        {"running": [("node-2", X, with_spec(near((9, term("old")))))]},
        PACKED,
    ),
    "a running pod of another namespace speaks of its own": (
        {"running": [("node-2", X, other(**with_spec(near((9, term("new"))))))]},
        PACKED,
    ),
}


@pytest.mark.parametrize(("request_", "case", "expected"), rows(POD_AFFINITY))
def test_a_pod_is_drawn_and_driven_off_by_neighbours(request_, case, expected):
    goes(request_, case, expected)
