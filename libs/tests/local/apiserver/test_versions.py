"""Kinds that are served in several versions, as a flag says."""

import pytest

from kai_local.apiserver.kinds.runtime_config import InvalidRuntimeConfig, served_versions

GROUP = "resource.k8s.io"
ALL = "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("", ("v1",)),
        ("resource.k8s.io/v1beta1=true", ("v1", "v1beta1")),
        (ALL, ("v1", "v1beta2", "v1beta1")),
        ("resource.k8s.io/v1=false, resource.k8s.io/v1beta1=true", ("v1beta1",)),
        ("resource.k8s.io/v1=false", ()),
    ],
)
def test_the_flag_says_which_versions_are_served(text, versions):
    assert served_versions(text) == {GROUP: versions}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("resource.k8s.io/v2=true", "there are resource.k8s.io/v1, "),
        ("apps/v1=false", "'apps/v1' cannot be chosen"),
        ("resource.k8s.io/v1=yes", "must end in =true or =false"),
    ],
)
def test_what_cannot_be_chosen_is_refused_with_what_can(text, said):
    with pytest.raises(InvalidRuntimeConfig, match=said):
        served_versions(text)


def a_claim(version, request):
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request]}},
    }


@pytest.fixture
async def versions(start):
    """A server that has all of them."""
    return await start(runtime_config=ALL)


def of(version, name=""):
    return f"/apis/{GROUP}/{version}/namespaces/default/resourceclaims" + (f"/{name}" if name else "")


async def test_one_object_is_seen_in_all_versions(versions):
    made = await versions.post(of("v1beta1"), a_claim("v1beta1", {"name": "r", "deviceClassName": "gpu"}))
    flat = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert made["spec"]["devices"]["requests"] == [flat]
    for version in ("v1", "v1beta2"):
        found = await versions.get(of(version, "c"))
        assert found["apiVersion"] == f"{GROUP}/{version}"
        exactly = {key: value for key, value in flat.items() if key != "name"}
        assert found["spec"]["devices"]["requests"] == [{"name": "r", "exactly": exactly}]


async def test_a_status_is_written_in_any_version(versions):
    await versions.post(of("v1"), a_claim("v1", {"name": "r", "exactly": {"deviceClassName": "gpu"}}))
    old = await versions.get(of("v1beta1", "c"))
    allocation = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
    await versions.put(of("v1beta1", "c/status"), {**old, "status": {"allocation": allocation}})
    found = await versions.get(of("v1", "c"))
    assert found["status"]["allocation"] == allocation
    assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"


async def test_what_a_claim_asks_for_is_changed_in_no_version(versions):
    await versions.post(of("v1"), a_claim("v1", {"name": "r", "exactly": {"deviceClassName": "gpu"}}))
    old = await versions.get(of("v1beta1", "c"))
    old["spec"]["devices"]["requests"][0]["count"] = 2
    status, _ = await versions.call("PUT", of("v1beta1", "c"), old)
    assert status == 422


async def test_discovery_tells_the_versions_the_newest_first(versions):
    group = await versions.get(f"/apis/{GROUP}")
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta2", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"


async def test_a_version_that_is_not_served_is_not_found(api):
    status, _ = await api.call("GET", of("v1beta1"))
    assert status == 404
