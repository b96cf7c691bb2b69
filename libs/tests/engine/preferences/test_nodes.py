"""Preferred node affinity, and taints that are to be avoided, as kube-scheduler has them."""

import pytest

from kai.model.objects import Toleration

from .cluster import ALSO, AVOID, ELSEWHERE, NODES, PACKED, ZONE_B, goes, is_in, rather_on, rows

NODE_AFFINITY = {
    "a label": ({"spec": rather_on((1, is_in("disk", "ssd")))}, {"node-1", "node-3"}),
    "not a label": ({"spec": rather_on((1, is_in("zone", "a", operator="NotIn")))}, ZONE_B),
    "a label that is there": ({"spec": rather_on((1, is_in("rack", operator="Exists")))}, {"node-2"}),
    "a label that is not there": (
        {"spec": rather_on((1, is_in("rack", operator="DoesNotExist")), (2, is_in("zone", "b")))},
        {"node-3"},
    ),
    "a number above": ({"spec": rather_on((1, is_in("cores", "32", operator="Gt")))}, {"node-3"}),
    "a name": (
        {"spec": rather_on((1, {"matchFields": [is_in("metadata.name", "node-3")]}))},
        {"node-3"},
    ),
    "the larger weight": (
        {"spec": rather_on((40, is_in("zone", "b")), (60, is_in("zone", "a")), (50, is_in("disk", "ssd")))},
        {"node-1"},
    ),
    "weights add up": (
        {"spec": rather_on((40, is_in("zone", "b")), (30, is_in("disk", "ssd")), (60, is_in("cores", "8")))},
        {"node-3"},
    ),
    "both expressions of a term": (
        {"spec": rather_on((1, {"matchExpressions": [is_in("zone", "b"), is_in("disk", "ssd")]}))},
        {"node-3"},
    ),
    "an empty preference": ({"spec": rather_on((100, {}))}, PACKED),
    "what no node has": ({"spec": rather_on((100, is_in("disk", "tape")))}, PACKED),
}
TAINTS = {
    "a taint to avoid": ({"taints": {"node-0": [AVOID]}}, ELSEWHERE),
    "a taint that is tolerated": (
        {"taints": {"node-0": [AVOID]}, "spec": {"tolerations": [Toleration(key="busy", operator="Exists")]}},
        PACKED,
    ),
    "all taints are tolerated": (
        {"taints": {"node-0": [AVOID, ALSO]}, "spec": {"tolerations": [Toleration(operator="Exists")]}},
        PACKED,
    ),
    "tolerated with another effect": (
        {
            "taints": {"node-0": [AVOID]},
            "spec": {"tolerations": [Toleration(key="busy", operator="Exists", effect="NoSchedule")]},
        },
        ELSEWHERE,
    ),
    "the fewest taints": (
        {"taints": {"node-0": [AVOID, ALSO], **{name: [AVOID] for name in ELSEWHERE}}},
        ELSEWHERE,
    ),
    "the same taint everywhere": ({"taints": {name: [AVOID] for name in NODES}}, PACKED),
}


@pytest.mark.parametrize(("request_", "case", "expected"), rows(NODE_AFFINITY))
def test_a_pod_goes_to_nodes_that_it_prefers(request_, case, expected):
    goes(request_, case, expected)


@pytest.mark.parametrize(("request_", "case", "expected"), rows(TAINTS))
def test_a_pod_avoids_nodes_that_had_better_be_left_alone(request_, case, expected):
    goes(request_, case, expected)
