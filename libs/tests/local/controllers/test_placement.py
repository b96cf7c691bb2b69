"""The default scheduler's choice of a node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai.model.objects import Node
from kai_local.controllers.placement import Unplaceable, choose_node
from kai_local.parts.objects import LocalPod

Json = dict[str, Any]


def a_node(name: str, *, labels: Json | None = None, **spec: Any) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    meta = {"name": name, "labels": labels or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"allocatable": allocatable}}, Node)


def a_pod(cpu: str = "1", **spec: Any) -> LocalPod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}, LocalPod)


def test_the_emptiest_node_is_taken_and_the_first_among_equals() -> None:
    nodes = [a_node("b"), a_node("a")]
    assert choose_node(a_pod(), nodes, {}) == "a"
    assert choose_node(a_pod(), nodes, {"a": {"cpu": 2000}}) == "b"


def test_no_node_has_room() -> None:
    answer = choose_node(a_pod("3"), [a_node("a"), a_node("b")], {"a": {"cpu": 2000}, "b": {"pods": 10_000}})
    assert answer == Unplaceable("0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods.")


TAINT = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("pod", "node", "fits"),
    [
        ({"nodeSelector": {"zone": "x"}}, {"labels": {"zone": "x"}}, True),
        ({"nodeSelector": {"zone": "x"}}, {"labels": {"zone": "y"}}, False),
        ({}, {"unschedulable": True}, False),
        ({}, {"taints": TAINT}, False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, {"taints": TAINT}, True),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, {"taints": TAINT}, False),
        ({"tolerations": [{"operator": "Exists"}]}, {"taints": TAINT, "unschedulable": True}, True),
    ],
)
def test_selectors_and_taints_are_honoured(pod: Json, node: Json, fits: bool) -> None:
    assert (choose_node(a_pod(**pod), [a_node("n", **node)], {}) == "n") is fits


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, False),
        ({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}, True),
        ({"matchExpressions": [{"key": "size", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
    ],
)
def test_node_affinity_is_honoured(term: Json, fits: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = a_pod(affinity={"nodeAffinity": required})
    assert (choose_node(pod, [a_node("n", labels={"size": "4"})], {}) == "n") is fits


RESIZED = {"name": "main", "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("pod", "status", "fits"),
    [
        ({"resources": {"requests": {"cpu": "4"}}}, {}, True),
        ({"resources": {"requests": {"cpu": "5"}}}, {}, False),
        ({}, {"containerStatuses": [RESIZED | {"allocatedResources": {"cpu": "4"}}]}, True),
        ({}, {"containerStatuses": [RESIZED | {"allocatedResources": {"cpu": "5"}}]}, False),
    ],
    ids=["for the pod as a whole", "too much of that", "while it is resized", "too much meanwhile"],
)
def test_a_pod_takes_what_kubelets_count(pod: Json, status: Json, fits: bool) -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    told = msgspec.convert({"spec": {"containers": containers, **pod}, "status": status}, LocalPod)
    assert (choose_node(told, [a_node("n")], {}) == "n") is fits
