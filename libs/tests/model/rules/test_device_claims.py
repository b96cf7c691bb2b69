"""Claims of pods, and the GPUs that claims ask for."""

import msgspec
import pytest

from kai.model.dra import ResourceClaim
from kai.model.objects import Pod
from kai.model.rules.device_claims import (
    ClaimEntry,
    claim_entries,
    claimed_gpus,
    gpus_of_request,
    is_gpu_name,
    may_take_gpus,
)


def a_pod(claims, made=()):
    return msgspec.convert(
        {"spec": {"resourceClaims": claims}, "status": {"resourceClaimStatuses": list(made)}}, Pod
    )


def test_a_claim_is_named_or_made_from_a_template_or_awaited_or_not_needed():
    claims = [
        {"name": "a", "resourceClaimName": "shared"},
        {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimTemplateName": "t"},
        {"name": "d", "resourceClaimTemplateName": "t"},
    ]
    made = [{"name": "b", "resourceClaimName": "p-b-x7"}, {"name": "d"}]
    assert list(claim_entries(a_pod(claims, made))) == [
        ClaimEntry("a", "shared"),
        ClaimEntry("b", "p-b-x7", from_template=True),
        ClaimEntry("c", None, from_template=True, awaited=True),
        ClaimEntry("d", None, from_template=True),
    ]
    assert list(claim_entries(Pod())) == []


@pytest.mark.parametrize(
    ("name", "gpu"),
    [("gpu.nvidia.com", True), ("GPU.example.com", True), ("vgpu", True), ("nic.example.com", False)],
)
def test_names_tell_what_is_of_gpus(name, gpu):
    assert is_gpu_name(name) is gpu


@pytest.mark.parametrize(
    ("device_class", "mode", "count", "gpus"),
    [
        ("gpu", "ExactCount", 3, 3),
        ("gpu", "", 0, 1),
        ("gpu", "All", 0, 1),
        ("gpu", "All", 7, 1),
        ("nic", "ExactCount", 3, 0),
        ("nic", "All", 0, 0),
    ],
)
def test_gpus_of_a_request(device_class, mode, count, gpus):
    assert gpus_of_request(device_class, mode, count) == gpus


def a_claim(*requests, annotations=None):
    devices = {"requests": [{"name": str(i), **each} for i, each in enumerate(requests)]}
    metadata = {"name": "c", "namespace": "team", "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": {"devices": devices}}, ResourceClaim)


def exactly(device_class, **fields):
    return {"exactly": {"deviceClassName": device_class, **fields}}


ALTERNATIVES = {"firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 4}]}


@pytest.mark.parametrize(
    ("requests", "expected", "may_take"),
    [
        ([exactly("gpu.nvidia.com", allocationMode="ExactCount", count=2)], ("gpu.nvidia.com", 2), True),
        ([exactly("gpu.nvidia.com")], ("gpu.nvidia.com", 1), True),
        ([exactly("GPU.example.com", allocationMode="All")], ("GPU.example.com", 1), True),
        ([exactly("gpu-a", count=2), exactly("gpu-b", count=3)], ("gpu-a", 5), True),
        ([exactly("nic", count=2), exactly("gpu")], ("gpu", 1), True),
        ([exactly("nic.example.com", count=2)], None, False),
        ([ALTERNATIVES], None, True),
        ([ALTERNATIVES, exactly("gpu")], ("gpu", 1), True),
        ([exactly("gpu", count=2**63 - 1), exactly("gpu", count=2**63 - 1)], ("gpu", 2**63 - 1), True),
        ([], None, False),
    ],
)
def test_gpus_of_a_claim(requests, expected, may_take):
    assert claimed_gpus(a_claim(*requests)) == expected
    assert may_take_gpus(a_claim(*requests)) is may_take


def test_a_claim_made_for_an_extended_resource_is_not_counted_twice():
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claimed_gpus(a_claim(exactly("gpu"), annotations=annotations)) is None
