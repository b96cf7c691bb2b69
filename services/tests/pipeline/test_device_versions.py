"""Devices of resource claims on clusters that serve ``resource.k8s.io`` in one version or another."""

import aiohttp
import pytest
import structlog.testing

from kai.kube import errors
from kai.kube.forms import served
from kai.kube.resources import DEVICE_CLASSES, POD_GROUPS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai.model import dra_forms, names
from kai.replay import archive
from kai.session.server import free_port
from kai_binder.plugins.dynamicresources import DynamicResources
from services.tests.pipeline.test_volumes_and_claims import ALLOCATION, work

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"
DEVICES = [{"name": f"gpu-{n}", "attributes": {"number": {"int": n}}} for n in range(2)]
#: Takes a device by what it says of itself, so that it has to be read where the version has it.
WANTED = {"cel": {"expression": f"device.attributes['{DRIVER}'].number == 1"}}
ONLY = {
    "v1": "",
    "v1beta2": "resource.k8s.io/v1=false,resource.k8s.io/v1beta2=true",
    "v1beta1": "resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true",
}


@pytest.fixture
def version():
    return "v1"


@pytest.fixture
def runtime_config(version):
    return ONLY.get(version, version)


async def create(cluster, res, body):
    """An object, given as one of v1, in the version that is served."""
    form = await served(cluster.client, res)
    namespace = "default" if res.namespaced else ""
    whole = {"apiVersion": res.api_version, "kind": res.kind, **body}
    await cluster.client.create(
        form.resource, form.write(whole) if form.write else whole, namespace=namespace
    )


async def a_driver(cluster):
    await cluster.node("n1")
    await create(cluster, DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {}})
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": DEVICES,
    }
    await create(cluster, RESOURCE_SLICES, {"metadata": {"name": "n1"}, "spec": spec})


async def a_claiming_pod(cluster, name="p"):
    exactly = {"deviceClassName": DRIVER, "selectors": [WANTED]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    meta = {"name": name, "labels": {names.QUEUE_LABEL: "test"}}
    await create(cluster, RESOURCE_CLAIMS, {"metadata": meta, "spec": spec})
    await cluster.pod(name, gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])


async def claim(cluster, version, name="p"):
    return await cluster.client.raw(
        f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/{name}"
    )


@pytest.mark.parametrize("version", ONLY)
async def test_a_claim_is_allocated_in_the_version_that_is_served(cluster, version):
    await a_driver(cluster)
    await a_claiming_pod(cluster)
    async with cluster.scheduler() as scheduler, cluster.binder(), cluster.podgroup_controller():
        assert await cluster.bound("p") == ["n1"]
        found = await claim(cluster, version)
        assert found["apiVersion"] == f"resource.k8s.io/{version}"
        (request,) = found["spec"]["devices"]["requests"]
        assert ("exactly" in request) is (version != "v1beta1")
        status = found["status"]
        (result,) = status["allocation"]["devices"]["results"]
        assert (result["request"], result["driver"], result["pool"], result["device"]) == (
            "gpu", DRIVER, "n1", "gpu-1",
        )  # fmt: skip
        assert [user["name"] for user in status["reservedFor"]] == ["p"]
        assert scheduler.health.notes().get("devices", "") == dra_forms.lacking(version)

        async def counted():
            group = await cluster.get("pg-p", res=POD_GROUPS)
            told = (group.get("status") or {}).get("resourcesStatus") or {}
            return told.get("allocated", {}).get(DRIVER) == "1"

        assert await cluster.until(counted)


async def test_other_versions_of_a_cluster_are_left_alone(cluster):
    with pytest.raises(errors.NotFound):
        await claim(cluster, "v1beta1")


@pytest.mark.parametrize("version", ["resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"])
async def test_of_several_versions_the_newest_is_taken(cluster, version):
    assert (await served(cluster.client, RESOURCE_CLAIMS)).resource.version == "v1"
    async with cluster.scheduler() as scheduler:
        assert "devices" not in scheduler.health.notes()


@pytest.mark.parametrize("version", ["resource.k8s.io/v1=false"])
async def test_without_any_version_pods_are_scheduled_and_that_is_told_once(cluster, version):
    await cluster.node("n1")
    await cluster.pod("plain")
    with structlog.testing.capture_logs() as logs:
        async with cluster.scheduler() as scheduler, cluster.binder():
            assert await cluster.bound("plain") == ["n1"]
        assert "devices" not in scheduler.health.notes()
    assert not [line for line in logs if line["log_level"] not in ("debug", "info")]
    told = [line for line in logs if "knows no resource claims" in line["event"]]
    assert len(told) == 1


@pytest.mark.parametrize("version", ONLY)
async def test_the_claim_for_an_extended_resource_is_made_in_the_version_that_is_served(cluster, version):
    await cluster.pod("p")
    exactly = {"deviceClassName": DRIVER, "count": 1}
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
    extended = {
        "allocation": ALLOCATION,
        "deviceRequests": [{"name": "r", "exactly": exactly}],
        "containerMappings": [mapping],
    }
    plugin = DynamicResources(cluster.client, timeout=10)
    prepared = await work(cluster, "p", extended_claim=extended)
    await plugin.pre_bind(prepared)
    await plugin.pre_bind(prepared)
    form = await served(cluster.client, RESOURCE_CLAIMS)
    (made,) = await cluster.client.list(form.resource, namespace="default")
    assert made["status"]["allocation"] == ALLOCATION
    plain = form.read(made) if form.read else made
    (request,) = plain["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == DRIVER
    await plugin.rollback(prepared)

    async def gone():
        return not await cluster.client.list(form.resource, namespace="default")

    await cluster.until(gone)


@pytest.mark.parametrize("version", ["v1beta1"])
async def test_a_snapshot_file_holds_objects_of_the_newest_version(cluster, version):
    await a_driver(cluster)
    await a_claiming_pod(cluster)
    port = free_port()

    async def asked():
        try:
            async with http.get(f"http://127.0.0.1:{port}/get-snapshot") as answer:
                return archive.read(await answer.read()) if answer.status == 200 else None
        except aiohttp.ClientConnectorError:
            return None

    async with cluster.scheduler(plugin_server_port=port), aiohttp.ClientSession() as http:
        found = await cluster.until(asked)
    (kept,), (published,) = found.raw_objects["resourceClaims"], found.raw_objects["resourceSlices"]
    assert kept["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == DRIVER
    assert [device["name"] for device in published["spec"]["devices"] if "attributes" in device] == [
        "gpu-0", "gpu-1",
    ]  # fmt: skip
    assert f"resource.k8s.io/{version}" in {each["groupVersion"] for each in found.discovery["resources"]}
