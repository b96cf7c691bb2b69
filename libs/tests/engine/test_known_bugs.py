"""What users of other schedulers met, and must not meet here; numbers are those of the original's issues."""

from typing import Any

import pytest

from kai.engine import Engine
from kai.model.objects import Condition, ContainerStatus, Pod, ResourceRequirements
from kai.snapshot.resources import CPU, GPU
from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_queue,
    a_single,
    a_state,
    add,
    bound,
    claiming,
    one_node,
)
from libs.tests.engine.dra.builders import DRIVER, a_claim, a_class, a_device, a_request, a_slice, in_cluster


# --- a pod that is resized in place (1872) -------------------------------------------------------
def resized(*, wanted: str, has: str, reason: str = "") -> Pod:
    """A running pod that had ``has`` CPUs, and whose user wants it to have ``wanted``."""
    pod = a_pod("big", group="big", cpu=wanted, node="n")
    pod.status.container_statuses = [
        ContainerStatus(
            name="main",
            allocated_resources={"cpu": has},
            resources=ResourceRequirements(requests={"cpu": has}),
        )
    ]
    if reason:
        pod.status.conditions = [Condition(type="PodResizePending", status="True", reason=reason)]
    return pod


@pytest.mark.parametrize(
    ("pod", "cpus_held"),
    [
        pytest.param(resized(wanted="6", has="2"), 6, id="growing"),
        pytest.param(resized(wanted="6", has="2", reason="Deferred"), 6, id="growing once there is room"),
        pytest.param(resized(wanted="20", has="2", reason="Infeasible"), 2, id="growing in vain"),
        pytest.param(resized(wanted="2", has="6"), 6, id="shrinking, but not yet done"),
        pytest.param(resized(wanted="2", has="2"), 2, id="shrunk"),
    ],
)
def test_1872_a_pod_that_is_resized_holds_what_it_may_have_and_its_queue_pays_for_it(pod, cpus_held):
    node = a_node("n", cpu="8")
    group = a_group("big", queue="team", started=NOW - 500)
    state = a_state(node, group, resized(wanted="4", has="4"))
    state.apply(Kind.POD, pod)
    for i in range(8):
        add(state, a_single(f"small-{i}", cpu="1"))
    result = Engine().run(state, NOW)
    state.check()
    assert len(bound(result)) == 8 - cpus_held
    assert {share.queue: share.allocated[CPU] for share in result.shares}["team"] == 8000


# --- devices that are claimed (1931, 2100) -------------------------------------------------------
def a_device_node(devices: list[Any], counters: dict[str, str] | None = None) -> list[Any]:
    slices = [a_slice("n", devices, slices=2 if counters else 1)]
    if counters:
        slices.append(a_slice("n", [], name="n-counters", slices=2, counters=counters))
    return [a_node("n", gpus=0), in_cluster(a_class(DRIVER), *slices)]


def a_gpu_claim(name: str) -> list[Any]:
    """For whoever is of the queue."""
    request = a_request("gpu", device_class=DRIVER)
    return in_cluster(a_claim(name, request, namespace="default", queue="team"))


def test_1931_a_device_that_pods_share_by_one_claim_is_taken_from_its_node_once():
    state = a_state(
        a_device_node(["gpu-0"]),
        a_gpu_claim("shared"),
        [a_single(name, spec=claiming("shared")) for name in "ab"],
    )
    result = Engine().run(state, NOW)
    assert bound(result) == {"a": "n", "b": "n"}
    add(state, a_single("plain"))
    assert bound(Engine().run(state, NOW)) == {"plain": "n"}
    state.check()


def test_2100_partitions_of_a_device_are_allocated_while_its_counters_last():
    halves = [a_device(f"half-{i}", counters={"memory": "40Gi"}) for i in range(3)]
    state = a_state(
        a_device_node(halves, {"memory": "80Gi"}),
        [a_gpu_claim(f"c{i}") for i in range(3)],
        [a_single(f"p{i}", spec=claiming(f"c{i}")) for i in range(3)],
    )
    result = Engine().run(state, NOW)
    devices = [
        each["device"]
        for bind in result.binds
        for each in bind.claim_allocations[0]["allocation"]["devices"]["results"]
    ]
    assert sorted(devices) == ["half-0", "half-1"]
    state.check()


# --- quotas ---------------------------------------------------------------------------------------
def test_a_queue_whose_quota_is_cut_is_reclaimed_from_once_and_then_left_alone():
    """Evicted pods come back at once, as those of a Deployment do."""
    queues = [a_queue("rich", parent="top", gpu=8, weight=0), a_queue("poor", parent="top", gpu=0, weight=0)]
    running = [a_single(f"rich-{i}", queue="rich", gpus=1, on="n") for i in range(8)]
    waiting = [a_single(f"poor-{i}", queue="poor", gpus=1) for i in range(8)]
    state = one_node(queues, running, waiting)
    engine = Engine()
    assert not engine.run(state, NOW).evictions
    state.apply(Kind.QUEUE, a_queue("rich", parent="top", gpu=2, weight=0))
    state.apply(Kind.QUEUE, a_queue("poor", parent="top", gpu=6, weight=0))
    evicted = []
    for cycle in range(1, 40):
        result = engine.run(state, NOW + cycle)
        evicted += [each.pod.name for each in result.evictions]
        for each in result.evictions:
            state.remove(Kind.POD, f"default/{each.pod.name}")
            state.apply(Kind.POD, a_pod(each.pod.name, group=each.pod.name, gpus=1, created=NOW + cycle))
        for bind in result.binds:
            state.bind_done(bind.pod.uid)
    assert len(evicted) == 6
    assert all(name.startswith("rich") for name in evicted)
    assert {share.queue: share.allocated[GPU] for share in result.shares if share.queue != "top"} == {
        "rich": 2,
        "poor": 6,
    }
