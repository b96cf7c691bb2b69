"""Whether a node came for a pod that stands for others."""

import pytest

from kai.model.objects import (
    Condition,
    Node,
    NodeSpec,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    Toleration,
)
from kai.snapshot.times import rfc3339
from kai_binder.scaling import SETTLING_SECONDS, awaits

NOW = 1_800_000_000.0


def node(age, *, labels=None, taints=None):
    meta = ObjectMeta(name="n", creation_timestamp=rfc3339(NOW - age), labels=labels)
    return Node(metadata=meta, spec=NodeSpec(taints=taints))


def pod(age, *, scheduled=None, **spec):
    conditions = [] if scheduled is None else [Condition(type="PodScheduled", status=scheduled)]
    meta = ObjectMeta(name="p", namespace="scaling", creation_timestamp=rfc3339(NOW - age))
    return Pod(metadata=meta, spec=PodSpec(**spec), status=PodStatus(conditions=conditions))


@pytest.mark.parametrize(
    ("pods", "age", "expected"),
    [
        ([], 5, False),
        ([pod(60)], 5, True),
        ([pod(60, scheduled="False")], 5, True),
        ([pod(60, scheduled="True")], 5, False),
        ([pod(5)], 5, True),
        ([pod(5)], 60, False),
        ([pod(3600)], SETTLING_SECONDS, True),
        ([pod(3600)], SETTLING_SECONDS + 1, False),
        ([pod(5), pod(60, scheduled="True"), pod(90)], 60, True),
    ],
    ids=[
        "nobody waits",
        "it is newer than who waits",
        "who waits says so",
        "who waited has a place",
        "both came in the same second",
        "it was there before",
        "its devices may still be on their way",
        "whoever waits still cannot be placed there",
        "one of several",
    ],
)
def test_a_node_is_left_to_whom_it_came_for(pods, age, expected):
    assert (awaits(pods, node(age), now=NOW) is not None) is expected


POOL = {"pool": "gpu"}
TAINT = Taint(key="gpu", effect="NoSchedule")
TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
REQUIRED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}


@pytest.mark.parametrize(
    ("spec", "there", "expected"),
    [
        ({"node_selector": POOL}, {"labels": POOL}, True),
        ({"node_selector": POOL}, {}, False),
        ({"affinity": REQUIRED}, {"labels": POOL}, True),
        ({"affinity": REQUIRED}, {}, False),
        ({}, {"taints": [TAINT]}, False),
        ({"tolerations": [Toleration(key="gpu", operator="Exists")]}, {"taints": [TAINT]}, True),
    ],
)
def test_it_came_for_nobody_who_may_not_go_there(spec, there, expected):
    assert (awaits([pod(60, **spec)], node(5, **there), now=NOW) is not None) is expected
