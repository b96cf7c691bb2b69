"""A search that failed for one job speaks for another one only where nodes are the same to both."""

from typing import Any

import pytest

from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    NOW,
    SLICE,
    Objects,
    a_job,
    a_node,
    a_queue,
    a_single,
    a_state,
    claiming,
    config,
    cycle,
    decided,
    nodes,
    slices,
)
from libs.tests.engine.dra.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_request,
    a_slice,
    in_cluster,
)

HOSTNAME = "kubernetes.io/hostname"
MINE = {"namespace": "mine"}
GROUPS = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a00{number}" for number in range(2)]


def term(app: str) -> dict[str, Any]:
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}


def away_from(app: str) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}}}


def near_to(app: str) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}}}


def spread(app: str) -> dict[str, Any]:
    constraint = {**term(app), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topology_spread_constraints": [constraint]}


def stays(name: str, node: str = "n0", **more: Any) -> list[Any]:
    """A pod that nobody makes go, and that leaves its GPUs to others."""
    return a_single(name, on=node, priority="build", **{"gpus": 0, **more})


WITH_DATA = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def a_volume(namespace: str, node: str) -> Objects:
    there = [{"key": HOSTNAME, "operator": "In", "values": [node]}]
    reachable = {"required": {"nodeSelectorTerms": [{"matchExpressions": there}]}}
    claim = {"metadata": {"name": "data", "namespace": namespace}, "spec": {"volumeName": namespace}}
    volume = {"metadata": {"name": namespace}, "spec": {"nodeAffinity": reachable}}
    return [
        (Kind.PERSISTENT_VOLUME_CLAIM, {**claim, "status": {"phase": "Bound"}}),
        (Kind.PERSISTENT_VOLUME, volume),
    ]


@pytest.mark.parametrize(
    ("first", "second", "world"),
    [
        pytest.param(
            {**MINE, "spec": away_from("web")},
            {"spec": away_from("web")},
            stays("web", labels={"app": "web"}, **MINE),
            id="whom it repels is in its own namespace",
        ),
        pytest.param(
            {"spec": near_to("web")},
            {**MINE, "spec": near_to("web")},
            stays("web", labels={"app": "web"}, **MINE),
            id="whom it needs is in the other namespace",
        ),
        pytest.param(
            {"spec": near_to("new"), "labels": {"app": "old"}},
            {"spec": near_to("new"), "labels": {"app": "new"}},
            (),
            id="only the other needs its own kind",
        ),
        pytest.param(
            {"labels": {"app": "x"}},
            {"labels": {"app": "y"}},
            stays("keeper", spec=away_from("x")),
            id="a pod there repels it",
        ),
        pytest.param(
            {**MINE, "labels": {"app": "web"}, "spec": spread("web")},
            {"labels": {"app": "web"}, "spec": spread("web")},
            stays("web", labels={"app": "web"}, **MINE),
            id="its own namespace is uneven",
        ),
        pytest.param(
            {**MINE, "spec": WITH_DATA},
            {"spec": WITH_DATA},
            [a_volume("mine", "n1"), a_volume("default", "n0")],
            id="its volume is elsewhere",
        ),
    ],
)
def test_who_demands_the_same_and_means_something_else_is_searched_for(
    first: dict[str, Any], second: dict[str, Any], world: Any
) -> None:
    state = a_state(
        a_node("n0", gpus=4),
        a_node("n1", gpus=4),
        a_single("low", on="n0", gpus=4),
        stays("high", "n1", gpus=4),
        world,
        a_single("first", gpus=4, priority="build", created=1, **first),
        a_single("second", gpus=4, priority="build", created=2, **second),
    )
    found = decided(state, config("allocate", "preempt"))
    assert (found.evicts, found.waits) == ({"low"}, {"second": "n0"})


def test_who_may_not_run_beyond_a_quota_above_its_queue_silences_nobody_who_may_go_again() -> None:
    state = a_state(
        [a_queue("d", gpu=4), a_queue("a", parent="d", gpu=4), a_queue("b", parent="d", gpu=4)],
        [a_queue("z", gpu=0), a_queue("z1", parent="z", gpu=0)],
        a_node("n0", gpus=8),
        a_single("builds", queue="b", on="n0", gpus=4, priority="build"),
        [a_single(f"borrows-{number}", queue="z1", on="n0", gpus=1) for number in range(4)],
        a_single("first", queue="a", gpus=1, priority="build", created=1),
        a_single("second", queue="a", gpus=1, created=2),
    )
    found = decided(state, config("allocate", "reclaim"))
    assert (len(found.evicts), found.waits) == (1, {"second": "n0"})


def test_a_node_closed_to_one_namespace_is_taken_by_another() -> None:
    state = a_state(
        a_node("n0", gpus=4),
        a_single("low", on="n0", gpus=4),
        a_single("first", gpus=4, priority="build", created=1, **MINE),
        a_single("second", gpus=4, priority="build", created=2),
    )
    for _ in range(3):
        state.refusals.refused("n0", namespace="mine", now=NOW - 1)
    assert decided(state).waits == {"second": "n0"}


def test_who_waits_for_mig_devices_silences_nobody_who_asks_for_gpus() -> None:
    cut = a_node("cut", gpus=0, labels={"nvidia.com/mig.strategy": "mixed"}, extra={SLICE: "1"})
    state = a_state(
        cut,
        a_node("n0", gpus=4),
        slices(stays("high", "cut")),
        a_single("low", on="n0", gpus=4),
        slices(a_single("first", priority="build", created=1)),
        a_single("second", gpus=4, priority="build", created=2),
    )
    assert decided(state).waits == {"second": "n0"}


def test_nor_does_who_waits_for_another_resource() -> None:
    def asking(name: str, resource: str, **more: Any) -> list[Any]:
        group, pod = a_single(name, priority="build", **more)
        pod.spec.containers[0].resources.requests[resource] = "1"
        return [group, pod]

    low = asking("low", "example.com/nic", on="n0")
    low[0].spec.priority_class_name = "train"
    state = a_state(
        a_node("n0", extra={"example.com/nic": "1", "example.com/fpga": "1"}),
        low,
        asking("high", "example.com/fpga", on="n0"),
        asking("first", "example.com/fpga", created=1),
        asking("second", "example.com/nic", created=2),
    )
    assert decided(state).waits == {"second": "n0"}


def test_nor_does_who_waits_for_other_devices_by_a_claim() -> None:
    def a_claim_of(name: str, model: str, **more: Any) -> Any:
        request = a_request(expressions=[f"device.attributes['{DRIVER}'].model == '{model}'"])
        return a_claim(name, request, namespace="default", queue="team", **more)

    def claims(name: str, claim: str, **more: Any) -> list[Any]:
        return a_single(name, spec=claiming(claim), **more)

    low, high = claims("low", "taken", on="n0"), claims("high", "held", on="n0", priority="build")
    state = a_state(
        a_node("n0", gpus=0),
        in_cluster(
            a_class(),
            a_slice("n0", [a_device("nic-0", model="nic"), a_device("fpga-0", model="fpga")]),
            a_claim_of("taken", "nic", users=[low[1].metadata.uid], holds=["nic-0"], node="n0"),
            a_claim_of("held", "fpga", users=[high[1].metadata.uid], holds=["fpga-0"], node="n0"),
            a_claim_of("wants-fpga", "fpga"),
            a_claim_of("wants-nic", "nic"),
        ),
        low,
        high,
        claims("first", "wants-fpga", priority="build", created=1),
        claims("second", "wants-nic", priority="build", created=2),
    )
    assert decided(state).waits == {"second": "n0"}


def test_labels_that_nobody_means_cost_no_search_of_their_own() -> None:
    state = a_state(
        [a_queue("top"), a_queue("team", parent="top")],
        a_node("n0", gpus=4),
        a_single("low", on="n0", gpus=4),
        stays("keeper", spec=away_from("x")),
        [
            a_single(f"j{n}", gpus=4, priority="build", created=1 + n, labels={"app": "x", "job": str(n)})
            for n in range(3)
        ],
    )
    result = cycle(state, config("allocate", "preempt"))
    assert result.counters["podgroups_acted_on_by_action", "preempt"] == 1


def test_a_gang_silences_no_elastic_job_of_as_many_pods_that_can_begin_with_one() -> None:
    state = a_state(
        a_node("n0", gpus=2),
        [a_single(f"low-{n}", on="n0", gpus=1, created=n) for n in range(2)],
        a_job("gang", pods=4, gpus=1, priority="build", created=10),
        a_job("elastic", pods=4, min_member=1, gpus=1, priority="build", created=11),
    )
    assert decided(state).waits == {"elastic-0": "n0"}


@pytest.mark.parametrize(
    ("node", "holds", "asks"),
    [
        pytest.param({"gpus": 2}, {"gpus": 1}, {"gpus": 2}, id="whole devices"),
        pytest.param(
            {"gpus": 1, "gpu_memory_mib": 16_000},
            {"gpu_memory_mib": 8_000},
            {"gpu_memory_mib": 12_000},
            id="memory of devices",
        ),
    ],
)
def test_who_is_beyond_the_limit_of_his_queue_silences_nobody_of_another_whom_moving_helps(
    node: dict[str, int], holds: dict[str, int], asks: dict[str, int]
) -> None:
    def runs(number: int) -> list[Any]:
        groups = (GROUPS[number],) if "gpu_memory_mib" in holds else ()
        return a_single(f"low-{number}", queue="other", on=f"n{number}", groups=groups, **holds)

    state = a_state(
        [a_queue("limited", limit=0.5, priority=200), a_queue("other")],
        nodes(2, **node),
        [runs(number) for number in range(2)],
        a_single("first", queue="limited", created=10, **asks),
        a_single("second", queue="other", created=11, **asks),
    )
    assert "second" in decided(state, config("allocate", "consolidation")).waits
