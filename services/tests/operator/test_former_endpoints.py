"""What Kubernetes keeps of a Service that no longer has a selector."""

import msgspec
import pytest

from kai.model.objects import ApiObject
from kai_operator.former_endpoints import former_endpoints, mirrored_of

SERVICE = "kubernetes.io/service-name"
MANAGER = "endpointslice.kubernetes.io/managed-by"
BY_SELECTOR, MIRRORED = "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"


def a_slice(service="kai-scheduler-default", *, manager=BY_SELECTOR, namespace="kai-scheduler", owner=None):
    metadata = {
        "name": f"{service}-x7",
        "namespace": namespace,
        "uid": "uid-slice",
        "labels": {SERVICE: service, MANAGER: manager},
        "ownerReferences": [owner or {"kind": "Service", "name": service, "uid": "uid-service"}],
    }
    return msgspec.convert({"metadata": metadata}, ApiObject)


def test_of_a_service_without_a_selector_all_slices_are_former_ones(build):
    service = build.service("kai-scheduler-default", selector=False)
    assert former_endpoints([service], [a_slice()]) == [a_slice()]


@pytest.mark.parametrize("found", [a_slice("admission"), a_slice(namespace="default")])
def test_those_of_other_services_are_not(build, found):
    assert former_endpoints([build.service("kai-scheduler-default", selector=False)], [found]) == []


def test_those_of_a_service_with_a_selector_are_not(build):
    assert former_endpoints([build.service("admission")], [a_slice("admission")]) == []


def test_a_slice_that_was_made_by_the_selector_stands_for_itself():
    assert mirrored_of(a_slice()) is None


def test_of_a_mirror_the_endpoints_are_known_that_it_would_be_made_of_again():
    owner = {"kind": "Endpoints", "name": "kai-scheduler-default", "uid": "uid-endpoints"}
    assert mirrored_of(a_slice(manager=MIRRORED, owner=owner)).uid == "uid-endpoints"
