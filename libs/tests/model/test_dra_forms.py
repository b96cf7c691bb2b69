"""Claims, templates, slices and classes of devices in the versions in which clusters serve them."""

import copy

import pytest

from kai.model import dra_forms
from kai.model.dra_forms import VERSIONS, lacking, newest, older

SELECTORS = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
OPTIONS = [{"name": "big", "deviceClassName": "big", "allocationMode": "ExactCount", "count": 1}]
STATUS = {
    "allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
}
ATTRIBUTES = {"uuid": {"string": "a"}}


def a_claim(*requests):
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests)}}, "status": STATUS}


def a_template(*requests):
    return {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": list(requests)}}}}


def a_slice(*devices):
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": list(devices)}}


#: Kind, an object of v1beta1, and the same one of v1.
CASES = {
    "an exact request": (
        "ResourceClaim",
        a_claim({"name": "r", "deviceClassName": "gpu", "selectors": SELECTORS, "count": 2}),
        a_claim({"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": SELECTORS, "count": 2}}),
    ),
    "administrators' access": (
        "ResourceClaim",
        a_claim({"name": "r", "deviceClassName": "gpu", "adminAccess": True}),
        a_claim({"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}),
    ),
    "alternatives": (
        "ResourceClaim",
        a_claim({"name": "r", "firstAvailable": OPTIONS}),
        a_claim({"name": "r", "firstAvailable": OPTIONS}),
    ),
    "several requests": (
        "ResourceClaim",
        a_claim({"name": "r", "deviceClassName": "gpu"}, {"name": "s", "firstAvailable": OPTIONS}),
        a_claim(
            {"name": "r", "exactly": {"deviceClassName": "gpu"}}, {"name": "s", "firstAvailable": OPTIONS}
        ),
    ),
    "a claim that asks for nothing": ("ResourceClaim", a_claim(), a_claim()),
    "a template": (
        "ResourceClaimTemplate",
        a_template({"name": "r", "deviceClassName": "gpu"}),
        a_template({"name": "r", "exactly": {"deviceClassName": "gpu"}}),
    ),
    "a device": (
        "ResourceSlice",
        a_slice(
            {"name": "x", "basic": {"attributes": ATTRIBUTES, "capacity": {"memory": {"value": "40Gi"}}}}
        ),
        a_slice({"name": "x", "attributes": ATTRIBUTES, "capacity": {"memory": {"value": "40Gi"}}}),
    ),
    "a device that says nothing": (
        "ResourceSlice",
        a_slice({"name": "x", "basic": {}}),
        a_slice({"name": "x"}),
    ),
    "a slice without devices": ("ResourceSlice", {"spec": {"driver": "d"}}, {"spec": {"driver": "d"}}),
    "a class": ("DeviceClass", {"spec": {"selectors": SELECTORS}}, {"spec": {"selectors": SELECTORS}}),
}


@pytest.mark.parametrize(("kind", "old", "new"), CASES.values(), ids=CASES.keys())
def test_what_is_of_v1beta1_is_read_as_v1_and_written_as_it_was(kind, old, new):
    before = copy.deepcopy((old, new))
    assert newest(old, kind=kind, version="v1beta1") == new
    assert older(new, kind=kind, version="v1beta1") == old
    assert (old, new) == before


def test_alternatives_are_not_taken_for_an_exact_request_by_the_empty_class_that_servers_write():
    told = a_claim({"name": "r", "deviceClassName": "", "firstAvailable": OPTIONS})
    expected = a_claim({"name": "r", "firstAvailable": OPTIONS})
    assert newest(told, kind="ResourceClaim", version="v1beta1") == expected


@pytest.mark.parametrize(("kind", "old", "new"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_other_versions_look_the_same(kind, old, new, version):
    assert newest(new, kind=kind, version=version) == new
    assert older(new, kind=kind, version=version) == new


@pytest.mark.parametrize("version", VERSIONS)
def test_an_object_that_says_of_what_version_it_is_says_so_afterwards(version):
    said = {"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceClass"}
    assert newest(said, kind="DeviceClass", version=version)["apiVersion"] == "resource.k8s.io/v1"
    there = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    assert older(there, kind="DeviceClass", version=version)["apiVersion"] == f"resource.k8s.io/{version}"


@pytest.mark.parametrize(
    "spec", [None, 1, [], {"devices": 1}, {"devices": {"requests": {}}}, {"devices": {"requests": [1, None]}}]
)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"])
def test_what_makes_no_sense_stays_as_it_is_for_others_to_refuse(kind, spec):
    assert newest({"spec": spec}, kind=kind, version="v1beta1") == {"spec": spec}


def test_what_a_version_may_lack_is_told_with_the_release_that_brought_it():
    assert lacking("v1") == ""
    assert "v1beta2" in lacking("v1beta2")
    assert "1.34" in lacking("v1beta2")
    assert "1.33" in lacking("v1beta1")
    assert set(dra_forms.LACKS) == set(VERSIONS)
