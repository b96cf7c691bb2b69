"""Pods of which nothing differs that counts are alike, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import fields, replace

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.model import names
from kai.model.objects import (
    Container,
    ContainerPort,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from kai.snapshot import likeness
from kai.snapshot.likeness import Likenesses, words
from kai.snapshot.state import ClusterState, Kind
from libs.tests.snapshot.test_arrivals import _image

_A_TERM = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
_AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_A_TERM]}}
_TRUE = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_A_TERM | {"weight": True}]}}
_SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
_MORE = ResourceRequirements(requests={"cpu": "3"})

#: Of each field that counts another value, by where it stands.
_OTHERS: dict[str, dict[str, object]] = {
    "metadata": {
        "namespace": "other",
        "labels": {names.KUBEFLOW_JOB_ROLE_LABEL: "master"},
        "annotations": {names.POD_GROUP_ANNOTATION: "g", names.GPU_FRACTION: "0.5"},
    },
    "spec": {
        "containers": [Container(name="main", resources=_MORE)],
        "init_containers": [Container(name="first", resources=_MORE)],
        "overhead": {"cpu": "1"},
        "node_selector": {"pool": "a"},
        "affinity": _AFFINITY,
        "tolerations": [Toleration(key="dedicated", operator="Exists")],
        "topology_spread_constraints": [_SPREAD],
        "scheduling_gates": [{"name": "gate"}],
        "priority_class_name": "high",
        "priority": 7,
        "preemption_policy": "Never",
        "service_account_name": "somebody",
        "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}],
        "host_network": True,
        "resources": _MORE,
    },
    "status": {
        "phase": "Unknown",
        "qos_class": "Guaranteed",
        "container_statuses": [ContainerStatus(name="main", resources=_MORE)],
        "nominated_node_name": "m",
    },
}
#: What counts for each pod alone, or makes it one that comes alone, or counts with others only.
_ELSEWHERE = {
    "metadata": {"name", "uid", "creation_timestamp", "deletion_timestamp"},
    "spec": {"node_name", "scheduler_name", "resource_claims"},
    "status": {"init_container_statuses", "resources", "allocated_resources", "start_time"}
    | {"extended_resource_claim_status"},
}
#: What counts for nobody.
_NOWHERE = {
    "metadata": {"generate_name", "resource_version", "generation", "deletion_grace_period_seconds"}
    | {"owner_references", "finalizers"},
    "spec": {"termination_grace_period_seconds", "runtime_class_name"},
    "status": {"conditions", "resource_claim_statuses"},
}
_PARTS = {"metadata": ObjectMeta, "spec": PodSpec, "status": PodStatus}
_CASES = [(part, field) for part, others in _OTHERS.items() for field in others]


def _with(pod: Pod, part: str, **values: object) -> Pod:
    return replace(pod, **{part: replace(getattr(pod, part), **values)})


def _pods() -> list[Pod]:
    return [a_pod(f"p{at}", group="g", gpus=1, node="n") for at in range(3)]


def _known() -> ClusterState:
    state = ClusterState()
    state.load(
        [
            (Kind.NODE, a_node("n")),
            (Kind.QUEUE, a_queue("q")),
            (Kind.POD_GROUP, a_group("g", queue="q")),
            (Kind.POD_GROUP, a_group("g", queue="q", namespace="other")),
        ]
    )
    return state


@pytest.mark.parametrize("part", _PARTS)
def test_of_each_field_of_a_pod_it_is_known_whether_it_counts(part: str) -> None:
    known = _OTHERS[part].keys() | _ELSEWHERE[part] | _NOWHERE[part]
    assert known == {each.name for each in fields(_PARTS[part])}


def test_what_is_compared_as_it_is_can_be_compared_so() -> None:
    assert set(likeness.SPEC) - _ELSEWHERE["spec"] <= _OTHERS["spec"].keys()
    assert "affinity" not in likeness.SPEC  # 1 and true are equal there, and not the same


@pytest.mark.parametrize(("part", "field"), _CASES, ids=[field for _, field in _CASES])
def test_a_pod_between_others_is_taken_in_as_what_it_says(part: str, field: str) -> None:
    pods = _pods()
    pods[1] = _with(pods[1], part, **{field: _OTHERS[part][field]})
    alone, together = _known(), _known()
    for pod in pods:
        alone.take(Kind.POD, pod)
    together.load((Kind.POD, pod) for pod in pods)
    assert _image(together) == _image(alone)
    assert words(pods[1]) != words(pods[0]) == words(pods[2])


@pytest.mark.parametrize(
    "changed",
    [
        lambda pod: _with(pod, "metadata", annotations={names.POD_GROUP_ANNOTATION: "g", "x/ip": "10.0.0.1"}),
        lambda pod: _with(pod, "metadata", creation_timestamp="2026-01-01T00:00:00Z", finalizers=["x/y"]),
        lambda pod: _with(pod, "spec", volumes=[{"name": "token-x", "projected": {}}]),
        lambda pod: _with(pod, "status", container_statuses=[ContainerStatus(name="main")]),
    ],
    ids=["an address", "when it was made", "its token", "its containers run"],
)
def test_what_is_of_each_pod_alone_leaves_it_like_the_others(changed: Callable[[Pod], Pod]) -> None:
    first, second, _ = _pods()
    likenesses = Likenesses(_known())
    assert likenesses.of(changed(first)) is likenesses.of(changed(_with(second, "metadata", uid="u")))


def test_a_number_is_no_truth_value() -> None:
    first, second, _ = _pods()
    assert words(_with(first, "spec", affinity=_AFFINITY)) != words(_with(second, "spec", affinity=_TRUE))


def test_ports_of_a_container_count() -> None:
    first, second, _ = _pods()
    container = replace(first.spec.containers[0], ports=[ContainerPort(host_port=80)])
    assert words(first) != words(_with(second, "spec", containers=[container]))
