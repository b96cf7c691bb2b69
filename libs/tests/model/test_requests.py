"""What a pod asks its node for."""

from decimal import Decimal

import msgspec
import pytest

from kai.model.objects import Pod
from kai.model.requests import pod_requests, requests, resized
from kai.model.resource_lists import parsed


def asked(pod: dict, status: dict | None = None) -> dict[str, Decimal]:
    read = msgspec.convert({"spec": pod, "status": status or {}}, Pod)
    return pod_requests(read, lambda amounts: {name: parsed(text) for name, text in amounts.items()})


def a_container(name="main", *, always=False, limits=None, **wanted):
    resources = {"requests": wanted} | ({"limits": limits} if limits else {})
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if always else {})


def a_status(name="main", *, promised=None, has=None):
    return {"name": name, "allocatedResources": promised or {}, "resources": {"requests": has or {}}}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = INFEASIBLE | {"reason": "Deferred"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"containers": []}, {}, id="nothing"),
        pytest.param(
            {"containers": [a_container(cpu="1"), a_container("b", cpu="500m")]}, {"cpu": "1.5"}, id="sum"
        ),
        pytest.param(
            {"containers": [a_container(limits={"cpu": "2"})]}, {"cpu": "2"}, id="limit for a request"
        ),
        pytest.param(
            {"containers": [a_container(cpu="1", limits={"cpu": "2"})]},
            {"cpu": "1"},
            id="request before limit",
        ),
        pytest.param(
            {"containers": [a_container(cpu="1")], "initContainers": [a_container("i", cpu="3", memory="5")]},
            {"cpu": "3", "memory": "5"},
            id="the peak of an init container",
        ),
        pytest.param(
            {
                "containers": [a_container(cpu="1")],
                "initContainers": [a_container("s", always=True, cpu="3")],
            },
            {"cpu": "4"},
            id="a sidecar beside the containers",
        ),
        pytest.param(
            {
                "containers": [a_container(cpu="1")],
                "initContainers": [
                    a_container("before", always=True, cpu="2"),
                    a_container("init", cpu="4"),
                    a_container("after", always=True, cpu="1"),
                ],
            },
            {"cpu": "6"},
            id="an init container beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [a_container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Ki"}},
            {"cpu": "1.25", "memory": "1024"},
            id="overhead",
        ),
        pytest.param(
            {
                "containers": [a_container(cpu="1", **{"nvidia.com/gpu": "2"})],
                "resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "7"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": "4", "nvidia.com/gpu": "2"},
            id="what the pod asks for as a whole, devices apart",
        ),
    ],
)
def test_a_pod_asks_for_what_kubelets_count(pod, expected):
    assert asked(pod) == {name: Decimal(amount) for name, amount in expected.items()}


@pytest.mark.parametrize(
    ("spec", "promised", "has", "condition", "expected"),
    [
        pytest.param("2", "2", "2", None, "2", id="at rest"),
        pytest.param("4", "2", "2", None, "4", id="growing"),
        pytest.param("4", "2", "2", DEFERRED, "4", id="growing once there is room"),
        pytest.param("4", "2", "2", INFEASIBLE, "2", id="growing in vain"),
        pytest.param("1", "2", "2", None, "2", id="shrinking, not yet done"),
        pytest.param("1", "1", "2", None, "2", id="shrinking, under way"),
        pytest.param("1", "1", "1", None, "1", id="shrunk"),
    ],
)
def test_a_container_that_is_resized_counts_with_the_most_that_it_may_hold(
    spec, promised, has, condition, expected
):
    status = {
        "containerStatuses": [a_status(promised={"cpu": promised}, has={"cpu": has})],
        "conditions": [condition] if condition else [],
    }
    assert asked({"containers": [a_container(cpu=spec)]}, status) == {"cpu": Decimal(expected)}


def test_a_sidecar_can_be_resized_too():
    pod = {"containers": [a_container(cpu="1")], "initContainers": [a_container("s", always=True, cpu="1")]}
    status = {"initContainerStatuses": [a_status("s", promised={"cpu": "3"}, has={"cpu": "3"})]}
    assert asked(pod, status) == {"cpu": Decimal(4)}


def test_a_resize_in_vain_leaves_alone_what_it_is_not_about():
    pod = {"containers": [a_container(cpu="4", **{"nvidia.com/gpu": "1"})]}
    status = {"containerStatuses": [a_status(has={"cpu": "2"})], "conditions": [INFEASIBLE]}
    assert asked(pod, status) == {"cpu": Decimal(2), "nvidia.com/gpu": Decimal(1)}


def test_a_kubelet_that_tells_nothing_of_resources_changes_nothing():
    assert asked({"containers": [a_container(cpu="4")]}, {"containerStatuses": [{"name": "main"}]}) == {
        "cpu": Decimal(4)
    }


def test_a_pod_as_a_whole_can_be_resized():
    pod = {"containers": [a_container(cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "4"}}}
    assert asked(pod, status) == {"cpu": Decimal(5)}


def test_pods_that_are_as_specified_are_not_told_apart_by_their_status():
    container = a_container(cpu="2")
    pod = msgspec.convert(
        {
            "spec": {"containers": [container]},
            "status": {"containerStatuses": [a_status(promised={"cpu": "2"}, has={"cpu": "2"})]},
        },
        Pod,
    )
    assert requests(pod.spec.containers[0].resources) == {"cpu": "2"}
    assert resized(pod) is None
    pod.status.container_statuses[0].resources.requests["cpu"] = "1"
    assert resized(pod) is not None
