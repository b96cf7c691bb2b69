"""Topology spread constraints, those that order nodes and those that must hold, as in kube-scheduler."""

import pytest

from .cluster import (
    ELSEWHERE,
    HOSTNAME,
    KEEP_OUT,
    NOW,
    NOWHERE,
    ON_SSD,
    PACKED,
    ZONE_B,
    X,
    goes,
    hard,
    other,
    rows,
    spread,
    spreads,
)

SPREAD = {
    "the emptier zone": (
        {"running": [("node-0", X), ("node-1", X), ("node-3", X)], "spec": spreads(spread())},
        ZONE_B,
    ),
    "the emptier node": ({"running": [("node-0", X)], "spec": spreads(spread(key=HOSTNAME))}, ELSEWHERE),
    "zones that are even": ({"running": [("node-1", X), ("node-3", X)], "spec": spreads(spread())}, PACKED),
    "a large skew orders all the same": (
        {"running": [("node-0", X)], "spec": spreads(spread(skew=5))},
        ZONE_B,
    ),
    "nodes without the key come last": ({"spec": spreads(spread(key="rack"))}, {"node-2"}),
    "zones, then nodes": (
        {
            "running": [("node-0", X), ("node-2", X), ("node-1", X)],
            "spec": spreads(spread(), spread(key=HOSTNAME)),
        },
        {"node-3"},
    ),
    "pods of other namespaces do not count": (
        {"running": [("node-0", X, other())], "spec": spreads(spread())},
        PACKED,
    ),
    "pods on their way out do not count": (
        {"running": [("node-0", X, {"deleted": NOW})], "spec": spreads(spread())},
        PACKED,
    ),
    "pods of the same revision": (
        {
            "running": [("node-0", X | {"rev": "1"}), ("node-3", X | {"rev": "2"})],
            "spec": spreads(spread(matchLabelKeys=["rev"])),
            "labels": X | {"rev": "1"},
        },
        ZONE_B,
    ),
    "nodes that the pod cannot use do not count": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": spreads(spread(), **ON_SSD),
        },
        {"node-1"},
    ),
    "they count where affinity is to be ignored": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": spreads(spread(nodeAffinityPolicy="Ignore"), **ON_SSD),
        },
        {"node-3"},
    ),
    "tainted nodes count": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": spreads(spread()),
            "taints": {"node-0": [KEEP_OUT]},
        },
        ZONE_B,
    ),
    "they do not where taints are to be honoured": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": spreads(spread(nodeTaintsPolicy="Honor")),
            "taints": {"node-0": [KEEP_OUT]},
        },
        {"node-1"},
    ),
}
MUST_SPREAD = {
    "one zone is ahead": ({"running": [("node-0", X)], "spec": hard(), "labels": X}, ZONE_B),
    "a pod that does not count itself": ({"running": [("node-0", X)], "spec": hard()}, PACKED),
    "a skew that is allowed": ({"running": [("node-0", X)], "spec": hard(skew=2), "labels": X}, PACKED),
    "one node is ahead": (
        {"running": [("node-0", X)], "spec": hard(key=HOSTNAME), "labels": X},
        ELSEWHERE,
    ),
    "nodes without the key": ({"spec": hard(key="rack"), "labels": X}, {"node-2"}),
    "too few domains": (
        {"running": [("node-0", X), ("node-2", X)], "spec": hard(minDomains=3), "labels": X},
        NOWHERE,
    ),
    "enough domains": (
        {"running": [("node-0", X), ("node-2", X)], "spec": hard(minDomains=2), "labels": X},
        PACKED,
    ),
    "nodes that the pod cannot use do not count": (
        {"running": [("node-0", X), ("node-3", X)], "spec": hard() | ON_SSD, "labels": X},
        {"node-1"},
    ),
    "they count where affinity is to be ignored": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": hard(nodeAffinityPolicy="Ignore") | ON_SSD,
            "labels": X,
        },
        {"node-3"},
    ),
    "tainted nodes count": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": hard(),
            "taints": {"node-0": [KEEP_OUT]},
            "labels": X,
        },
        ZONE_B,
    ),
    "they do not where taints are to be honoured": (
        {
            "running": [("node-0", X), ("node-0", X), ("node-3", X)],
            "spec": hard(nodeTaintsPolicy="Honor"),
            "taints": {"node-0": [KEEP_OUT]},
            "labels": X,
        },
        {"node-1"},
    ),
    "pods on nodes without all keys do not count": (
        {
            "running": [("node-3", X), ("node-3", X), ("node-0", X)],
            "spec": spreads(spread(soft=False), spread(soft=False, key="rack")),
            "labels": X,
        },
        {"node-2"},
    ),
    "pods of the same revision": (
        {
            "running": [("node-0", X | {"rev": "1"}), ("node-2", X | {"rev": "2"})],
            "spec": hard(matchLabelKeys=["rev"]),
            "labels": X | {"rev": "2"},
        },
        PACKED,
    ),
}


@pytest.mark.parametrize(("request_", "case", "expected"), rows(SPREAD))
def test_a_pod_goes_where_the_fewest_of_its_kind_are(request_, case, expected):
    goes(request_, case, expected)


@pytest.mark.parametrize(("request_", "case", "expected"), rows(MUST_SPREAD))
def test_a_pod_goes_only_where_its_kind_is_not_ahead(request_, case, expected):
    goes(request_, case, expected)
