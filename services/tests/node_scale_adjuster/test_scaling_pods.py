"""What scaling pods look like, and what they are called."""

import re

import pytest

from kai.model import names
from kai_node_scale_adjuster.objects import label_value, scaling_pod_name
from kai_node_scale_adjuster.scaling_pods import PROGRAM, ScalingTemplate

TEMPLATE = ScalingTemplate(image="example.com/kai:1", service_account="scaler")
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def container_of(manifest):
    (container,) = manifest["spec"]["containers"]
    return container


def test_it_asks_for_whole_devices_and_for_what_else_its_pod_asks_for(build):
    asked = {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi", "example.com/nic": "1"}
    waiting = build.waiting(
        devices=2,
        requests=asked,
        initContainers=[
            {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ],
        overhead={"memory": "256Mi"},
    )
    assert container_of(TEMPLATE.manifest(waiting, "p"))["resources"] == {
        "requests": {
            "cpu": "1500m",
            "ephemeral-storage": "2Gi",
            "example.com/nic": "1",
            "memory": "1280Mi",
            names.NVIDIA_GPU: "2",
        },
        "limits": {"example.com/nic": "1", names.NVIDIA_GPU: "2"},
    }


def test_no_scheduler_places_it(build):
    spec = TEMPLATE.manifest(build.waiting(), "p")["spec"]
    assert spec["schedulerName"] == names.SCALING_POD_SCHEDULER
    assert spec["schedulerName"] not in ("default-scheduler", names.SCHEDULER_NAME)


def test_it_goes_where_its_pod_may_go(build):
    place = {
        "nodeSelector": {"pool": "b"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"x": 1}}},
    }
    spec = TEMPLATE.manifest(build.waiting(**place), "p")["spec"]
    assert {key: spec[key] for key in place} == place


def test_what_it_is_to_be_near_or_far_from_is_in_the_namespace_of_its_pod(build):
    term = {"topologyKey": "zone", "labelSelector": {}}
    elsewhere = {**term, "namespaces": ["other"]}
    anywhere = {**term, "namespaceSelector": {}}
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, elsewhere, anywhere]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
        },
    }
    here = {**term, "namespaces": ["team"]}
    assert TEMPLATE.manifest(build.waiting(affinity=affinity), "p")["spec"]["affinity"] == {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [here, elsewhere, anywhere]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": here}]
        },
    }


def test_labels_that_are_compared_are_those_of_its_pod_and_not_its_own(build):
    """As the API server leaves a term: the value is in the selector, and the key stays beside it."""
    value = {"key": "app", "operator": "In", "values": ["trainer"]}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [value]}}
    kind = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "matchLabelKeys": ["app"]}]}
    spec = TEMPLATE.manifest(build.waiting(affinity={"podAffinity": kind}), "p")["spec"]
    assert spec["affinity"]["podAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaces": ["team"]}]
    }


def test_it_names_its_pod_and_runs_nothing_that_could_do_harm(build):
    manifest = TEMPLATE.manifest(build.waiting("p"), "team-p")
    assert manifest["metadata"]["labels"] == {
        "app": "scaling-pod",
        "shared-gpu-pod-name": "p",
        "shared-gpu-pod-namespace": "team",
    }
    assert manifest["metadata"]["annotations"] == {names.SCALING_FOR: "uid-p team/p"}
    spec, container = manifest["spec"], container_of(manifest)
    assert (spec["restartPolicy"], spec["serviceAccountName"]) == ("OnFailure", "scaler")
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    # A cluster that gives out user ids takes no pod that asks for one.
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert "runAsUser" not in spec["securityContext"]
    assert (container["image"], container["args"]) == ("example.com/kai:1", list(PROGRAM))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("p", "team-p"), ("my.pod", "team-my.pod"), ("job-x7k2p", "team-job-x7k2p")],
)
def test_it_is_called_like_its_pod(name, expected):
    assert scaling_pod_name(f"team/{name}") == expected


@pytest.mark.parametrize("name", ["a" * 253, f"{'a' * 230}.{'b' * 22}", f"{'a' * 231}-{'b' * 21}"])
def test_a_name_that_is_too_long_ends_in_a_digest(name):
    found = scaling_pod_name(f"team/{name}")
    assert NAME.fullmatch(found)
    assert found.startswith("team-aaa")
    assert found != scaling_pod_name(f"team/{name[:-1]}x")
    assert scaling_pod_name(f"team/{name}") == found


@pytest.mark.parametrize("name", ["p", "a" * 63, "a" * 64, f"{'a' * 45}.{'b' * 100}", "a" * 253])
def test_labels_hold_any_name(name):
    assert LABEL.fullmatch(label_value(name))
    assert (label_value(name) == name) is (len(name) <= 63)


def test_names_that_read_the_same_once_joined_can_be_told_apart():
    assert scaling_pod_name("a/b-c") == scaling_pod_name("a-b/c")
    assert scaling_pod_name("a/b-c", plain=False) != scaling_pod_name("a-b/c", plain=False)
