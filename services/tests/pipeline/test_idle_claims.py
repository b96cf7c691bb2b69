"""A claim that an attempt to bind has left to a pod without a place is given back."""

import pytest

from kai.kube.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai.model import names
from services.tests.pipeline.test_device_versions import create

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    for seconds in ("LOST_BINDER_SECONDS", "CLAIMS_PERIOD_SECONDS"):
        monkeypatch.setattr(f"kai_scheduler.leadership.{seconds}", 0.1)


async def devices(cluster, *nodes):
    """A device on each of these nodes."""
    await create(cluster, DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {}})
    for node in nodes:
        await cluster.node(node)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        await create(cluster, RESOURCE_SLICES, {"metadata": {"name": node}, "spec": spec})


async def a_pod(cluster, name, **spec):
    """A pod with a claim of its name."""
    exactly = {"deviceClassName": DRIVER, "count": 1}
    requests = [{"name": "gpu", "exactly": exactly}]
    meta = {"name": name, "labels": {names.QUEUE_LABEL: "test"}}
    await create(cluster, RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": requests}}})
    return await cluster.pod(
        name, gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], **spec
    )


async def left(cluster, name, node):
    """The pod's claim as it is when its binder ends before the pod is bound."""
    pod = await cluster.get(name)
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
    }
    users = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
    body = await cluster.get(name, res=RESOURCE_CLAIMS)
    body["status"] = {"allocation": allocation, "reservedFor": users}
    await cluster.client.update(RESOURCE_CLAIMS, name, body, namespace="default", subresource="status")


async def test_a_pod_whose_node_takes_none_any_more_goes_elsewhere(cluster):
    await devices(cluster, "n1", "n2")
    await a_pod(cluster, "p")
    await left(cluster, "p", "n1")
    await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": True}})
    # What fails at first is tried again.
    rule = {"verb": "update", "resource": "resourceclaims", "subresource": "status"}
    cluster.fault(**rule, status=500, count=2)
    async with cluster.scheduler(), cluster.binder():
        assert await cluster.bound("p") == ["n2"]
    claim = await cluster.get("p", res=RESOURCE_CLAIMS)
    assert [each["pool"] for each in claim["status"]["allocation"]["devices"]["results"]] == ["n2"]


async def test_a_device_that_a_pod_without_a_place_holds_is_for_others(cluster):
    await devices(cluster, "n1")
    await a_pod(cluster, "nowhere", nodeSelector={"no": "where"})
    await left(cluster, "nowhere", "n1")
    await a_pod(cluster, "p")
    async with cluster.scheduler(), cluster.binder():
        assert await cluster.bound("p") == ["n1"]
    assert not (await cluster.get("nowhere", res=RESOURCE_CLAIMS)).get("status")


async def test_a_pod_that_can_be_bound_keeps_what_was_left_to_it(cluster):
    await devices(cluster, "n1", "n2")
    await a_pod(cluster, "p")
    await left(cluster, "p", "n1")
    async with cluster.scheduler(), cluster.binder():
        assert await cluster.bound("p") == ["n1"]
