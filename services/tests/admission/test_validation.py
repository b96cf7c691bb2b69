import pytest

from kai.runtime.webhook import AdmissionRequest
from kai.validation.registration import VALIDATE_POD, VALIDATE_TOPOLOGY
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings
from services.tests.admission.builders import a_pod


def review(path, obj, *flags, operation="CREATE", **request):
    settings = AdmissionSettings.parse(list(flags))
    return handlers(settings)[path](
        AdmissionRequest(uid="u", operation=operation, namespace="team", object=obj, **request)
    )


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_the_rules_follow_the_flags(operation):
    fraction = a_pod(annotations={"gpu-fraction": "0.5"})
    assert "GPU sharing is disabled" in review(VALIDATE_POD, fraction, operation=operation).message
    assert review(VALIDATE_POD, fraction, "--gpu-sharing-enabled", operation=operation).allowed


def test_pods_of_other_schedulers_are_nobodys_business():
    assert review(
        VALIDATE_POD, a_pod(annotations={"gpu-fraction": "7"}, schedulerName="default-scheduler")
    ).allowed
    assert review(VALIDATE_POD, a_pod(annotations={"gpu-fraction": "7"}, schedulerName="")).allowed


def test_a_pod_that_is_being_deleted_can_always_lose_its_finalizers():
    pod = a_pod(annotations={"gpu-fraction": "7"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert review(VALIDATE_POD, pod, operation="UPDATE").allowed


@pytest.mark.parametrize("obj", [None, {}, {"spec": None}])
def test_what_holds_no_pod_of_ours_goes_on(obj):
    assert review(VALIDATE_POD, obj).allowed


def test_subresources_are_not_pods():
    assert review(VALIDATE_POD, a_pod(annotations={"gpu-fraction": "7"}), sub_resource="binding").allowed


def test_what_cannot_be_understood_is_refused_with_the_place():
    response = review(VALIDATE_POD, {"spec": {"schedulerName": "kai-scheduler", "containers": "none"}})
    assert not response.allowed
    assert response.code == 400
    assert "$.spec.containers" in response.message


def a_topology(*levels):
    return {
        "metadata": {"name": "fabric"},
        "spec": {"levels": [dict(zip(("nodeLabel", "alias"), level, strict=False)) for level in levels]},
    }


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_topologies_are_checked_whatever_the_flags(operation):
    assert review(VALIDATE_TOPOLOGY, a_topology(("a", "x"), ("b",)), operation=operation).allowed
    response = review(VALIDATE_TOPOLOGY, a_topology(("a", "x"), ("b", "x")), operation=operation)
    assert "used for more than one level: x" in response.message
    assert response.code == 403


def test_deletion_of_a_topology_is_free():
    assert review(VALIDATE_TOPOLOGY, None, operation="DELETE").allowed


def test_a_topology_that_was_stored_as_it_is_can_be_labelled_and_can_go():
    old = a_topology(("a", "x"), ("b", "x"))
    for metadata in ({"labels": {"a": "b"}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        new = {**old, "metadata": old["metadata"] | metadata}
        assert review(VALIDATE_TOPOLOGY, new, operation="UPDATE", old_object=old).allowed
        other = a_topology(("a", "x"), ("b",))
        assert not review(VALIDATE_TOPOLOGY, new, operation="UPDATE", old_object=other).allowed


def a_bound_pod(fraction, **metadata):
    pod = a_pod(annotations={"gpu-fraction": fraction} if fraction else {}, metadata=metadata)
    return pod | {"spec": pod["spec"] | {"nodeName": "n1"}}


@pytest.mark.parametrize("fraction", ["0.01", None])
@pytest.mark.parametrize(
    "metadata", [{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}], ids=["runs", "going"]
)
def test_the_part_of_a_gpu_that_a_bound_pod_was_granted_cannot_be_rewritten(fraction, metadata):
    response = review(
        VALIDATE_POD,
        a_bound_pod(fraction, **metadata),
        "--gpu-sharing-enabled",
        operation="UPDATE",
        old_object=a_bound_pod("0.9", **metadata),
    )
    assert not response.allowed
    assert 'pod team/demo: annotation gpu-fraction is "0.9"' in response.message


def test_a_pod_beyond_its_bounds_is_refused_when_it_is_created_only():
    pod = a_pod()
    pod["spec"]["tolerations"] = [{"key": f"k{number}"} for number in range(513)]
    response = review(VALIDATE_POD, pod)
    assert not response.allowed
    assert response.message == "pod team/demo: spec.tolerations is '513'; it must be at most 512"
    assert review(VALIDATE_POD, pod, operation="UPDATE", old_object=pod).allowed


SHARES = {"gpu-fraction": "0.5"}


@pytest.mark.parametrize(
    ("pod", "flags"),
    [
        pytest.param(a_pod(annotations=SHARES), [], id="sharing was switched off"),
        pytest.param(
            a_pod({"name": "c", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
            ["--block-nvidia-visible-devices"],
            id="devices were blocked",
        ),
        pytest.param(
            a_pod(annotations={**SHARES, "gpu-fraction-container-name": "none"}),
            ["--gpu-sharing-enabled", "--block-nvidia-visible-devices"],
            id="what does not exist",
        ),
    ],
)
def test_what_a_pod_was_admitted_with_keeps_nobody_from_other_changes_of_it(pod, flags):
    """The controller of Jobs takes its finalizer off pods that have ended, and waits for that."""
    finished = pod | {"metadata": pod["metadata"] | {"finalizers": []}}
    assert review(VALIDATE_POD, finished, *flags, operation="UPDATE", old_object=pod).allowed
    assert not review(VALIDATE_POD, finished, *flags, operation="UPDATE", old_object=a_pod()).allowed
    assert not review(VALIDATE_POD, finished, *flags).allowed


def test_another_mistake_is_refused_beside_one_that_was_there():
    old, new = a_pod(annotations=SHARES), a_pod(annotations={**SHARES, "gpu-memory": "100"})
    response = review(VALIDATE_POD, new, operation="UPDATE", old_object=old)
    assert "exclude each other" in response.message
