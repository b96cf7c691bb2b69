"""Claims of pods, and the GPUs that claims ask for."""

import msgspec
import pytest

from kai.model.dra import ResourceClaim
from kai.model.objects import Pod
from kai.model.rules.device_claims import (
    ClaimEntry,
    claim_entries,
    claimed_gpus,
    is_for_gpus,
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


def a_claim(*requests, annotations=None, results=None):
    devices = {"requests": [{"name": str(i), **each} for i, each in enumerate(requests)]}
    metadata = {"name": "c", "namespace": "team", "annotations": annotations or {}}
    status = {} if results is None else {"allocation": {"devices": {"results": results}}}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"devices": devices}, "status": status}, ResourceClaim
    )


def exactly(device_class, **fields):
    return {"exactly": {"deviceClassName": device_class, **fields}}


EITHER = {
    "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}, {"name": "y", "deviceClassName": "nic"}]
}
ALTERNATIVES = {"firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 4}]}


@pytest.mark.parametrize(
    ("requests", "expected", "may_take"),
    [
        ([exactly("gpu.nvidia.com", allocationMode="ExactCount", count=2)], ("gpu.nvidia.com", 2), True),
        ([exactly("gpu.nvidia.com")], ("gpu.nvidia.com", 1), True),
        ([exactly("gpu", allocationMode="", count=0)], ("gpu", 1), True),
        ([exactly("GPU.example.com", allocationMode="All")], ("GPU.example.com", 1), True),
        ([exactly("gpu", allocationMode="All", count=7)], ("gpu", 1), True),
        ([exactly("gpu", count=3, adminAccess=True)], None, True),
        ([exactly("gpu-a", count=2), exactly("gpu-b", count=3)], ("gpu-a", 5), True),
        ([exactly("nic", count=2), exactly("gpu")], ("gpu", 1), True),
        ([exactly("nic.example.com", count=2)], None, False),
        ([ALTERNATIVES], None, True),
        ([ALTERNATIVES, exactly("gpu")], ("gpu", 1), True),
        ([exactly("gpu", count=2**63 - 1), exactly("gpu", count=2**63 - 1)], ("gpu", 2**63 - 1), True),
        ([], None, False),
    ],
)
def test_gpus_that_a_claim_asks_for(requests, expected, may_take):
    assert claimed_gpus(a_claim(*requests)) == expected
    assert may_take_gpus(a_claim(*requests)) is may_take


def test_a_claim_counts_whatever_its_owner_says_of_it():
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claimed_gpus(a_claim(exactly("gpu"), annotations=annotations)) == ("gpu", 1)


def result(request, driver="gpu.example.com", **more):
    return {"request": request, "driver": driver, "pool": "p", "device": "d", **more}


@pytest.mark.parametrize(
    ("requests", "results", "expected"),
    [
        ([ALTERNATIVES], [result("0/x"), result("0/x")], ("gpu", 2)),
        ([exactly("gpu", allocationMode="All")], [result("0")] * 4, ("gpu", 4)),
        ([exactly("a100")], [result("0")], ("a100", 1)),
        ([exactly("gpu")], [result("0", "nvidia.com")], ("gpu", 1)),
        ([exactly("nic")], [result("0", "nic.example.com")], None),
        ([exactly("gpu", adminAccess=True)], [result("0", adminAccess=True)], None),
        ([exactly("gpu", count=2)], [], None),
    ],
)
def test_gpus_that_a_claim_has_got(requests, results, expected):
    assert claimed_gpus(a_claim(*requests, results=results)) == expected


@pytest.mark.parametrize(
    ("request_", "results", "expected"),
    [
        (ALTERNATIVES, None, True),
        (exactly("gpu", adminAccess=True), None, True),
        (exactly("gpu", adminAccess=True), [result("0", adminAccess=True)], True),
        (EITHER, [result("0/x")], True),
        (EITHER, [result("0/y", "nic.example.com")], False),
        (exactly("nic"), None, False),
    ],
)
def test_a_claim_is_for_gpus_however_they_are_counted_until_it_has_got_something_else(
    request_, results, expected
):
    claim = a_claim(request_) if results is None else a_claim(request_, results=results)
    assert is_for_gpus(claim) is expected
