"""Volumes and devices are claimed before the pod is bound, and given back if it is not."""

import asyncio
from contextlib import asynccontextmanager

import pytest

import kai_binder.executor
from deadlines import eventually, within
from kai.kube import errors
from kai.kube.resources import NODES, PODS, PVCS, PVS, RESOURCE_CLAIMS, STORAGE_CLASSES
from kai.model import names
from kai.model.decisions import BindDecision, PodRef
from kai.model.objects import Pod
from kai.model.rules.volumes import SELECTED_NODE, selected_node
from kai_binder.errors import BindFailed
from kai_binder.plugins.dynamicresources import DynamicResources
from kai_binder.plugins.volumebinding import VolumeBinding
from kai_binder.work import Work

pytestmark = pytest.mark.integration
NO_PROVISIONER = "kubernetes.io/no-provisioner"


async def a_class(cluster, *, provisioner=NO_PROVISIONER, mode="WaitForFirstConsumer"):
    body = {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode}
    await cluster.client.create(STORAGE_CLASSES, body)


async def a_claim(cluster, name="data", **metadata):
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    body = {"metadata": {"name": name, **metadata}, "spec": spec}
    await cluster.client.create(PVCS, body, namespace="default")


async def the_claim(cluster):
    return await cluster.client.get(PVCS, "data", namespace="default")


async def select(cluster, node):
    """What whoever binds another pod of the claim does, or its provisioner where it gives up (None)."""
    patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
    await cluster.client.patch(PVCS, "data", patch, namespace="default")


async def a_volume(cluster, name, *, size="10Gi", node="n1"):
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "hostPath": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    await cluster.client.create(PVS, {"metadata": {"name": name}, "spec": spec})
    await cluster.client.patch(PVS, name, {"status": {"phase": "Available"}}, subresource="status")


async def finish(cluster, claim, volume):
    """What the volume controller does once a volume names its claim."""
    bound = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
    }
    await cluster.client.patch(PVCS, claim, bound, namespace="default")
    status = {"status": {"phase": "Bound"}}
    await cluster.client.patch(PVCS, claim, status, namespace="default", subresource="status")


def with_claim(name="data"):
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


async def work(cluster, name, **decision):
    """A pod about to be bound to n1."""
    pod = await cluster.client.get(PODS, name, namespace="default", type=Pod)
    ref = PodRef(uid=pod.metadata.uid, namespace="default", name=name)
    return Work(BindDecision(pod=ref, node="n1", **decision), pod)


# --- volumes -----------------------------------------------------------------------------------
async def test_the_smallest_volume_that_the_node_can_reach_is_taken(cluster):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster)
    await a_claim(cluster)
    await a_volume(cluster, "elsewhere", node="n2")
    await a_volume(cluster, "large", size="100Gi")
    await a_volume(cluster, "small", size="20Gi")
    await cluster.pod("p", **with_claim())
    async with cluster.scheduler(), cluster.binder():

        async def taken():
            volume = await cluster.client.get(PVS, "small")
            return volume["spec"].get("claimRef")

        reference = await cluster.until(taken)
        claim = await the_claim(cluster)
        assert (reference["name"], reference["uid"]) == ("data", claim["metadata"]["uid"])
        assert "nodeName" not in (await cluster.get("p"))["spec"]
        await finish(cluster, "data", "small")
        assert await cluster.bound("p") == ["n1"]


async def test_a_provisioner_is_told_the_node_and_waited_for(cluster):
    await cluster.node("n1")
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    await cluster.pod("p", **with_claim())
    async with cluster.scheduler(), cluster.binder():

        async def asked():
            return selected_node(await the_claim(cluster)) == "n1"

        await cluster.until(asked)
        await a_volume(cluster, "made", node="n1")
        await finish(cluster, "data", "made")
        node = {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}
        await cluster.client.patch(NODES, "n1", node)
        assert await cluster.bound("p") == ["n1"]


@pytest.mark.usefixtures("devices")
async def test_a_pod_whose_device_is_lost_while_its_volume_is_made_is_decided_anew(cluster, monkeypatch):
    monkeypatch.setattr(kai_binder.executor, "LONG_SECONDS", 0.0)
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p", fraction=0.5, **with_claim())

        async def asked():
            return selected_node(await the_claim(cluster)) == "n1"

        await cluster.until(asked)
        (reservation,) = await cluster.reservations()
        meta = reservation["metadata"]
        await cluster.client.delete(PODS, meta["name"], namespace=meta["namespace"], grace_seconds=0)
        await a_volume(cluster, "made")
        await finish(cluster, "data", "made")
        await cluster.bound("p")
        (event, *_) = await cluster.events("BindingError")
        assert "is not held for pod default/p any more" in event["note"]
        (reservation,) = await cluster.reservations()
        data = (await cluster.config_map("p-abcdefg-shared-gpu-0"))["data"]
        assert (
            data[names.NVIDIA_VISIBLE_DEVICES] == reservation["metadata"]["annotations"][names.RESERVED_GPU]
        )


async def test_a_volume_that_does_not_come_in_time_is_a_failure_with_its_claim_named(cluster):
    await cluster.node("n1")
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    await cluster.pod("p", **with_claim())
    plugin = VolumeBinding(cluster.client, timeout=0.1)
    with pytest.raises(BindFailed, match=r"persistentvolumeclaims data of pod default/p .* 0\.1 s"):
        await plugin.pre_bind(await work(cluster, "p"))


async def test_without_a_volume_and_without_a_provisioner_it_fails_at_once(cluster):
    await cluster.node("n1")
    await a_class(cluster)
    await a_claim(cluster)
    await cluster.pod("p", **with_claim())
    plugin = VolumeBinding(cluster.client, timeout=60)
    with pytest.raises(BindFailed, match="no volume of class fast"):
        await plugin.pre_bind(await work(cluster, "p"))


async def test_a_bound_volume_out_of_reach_is_a_failure(cluster):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster)
    await a_claim(cluster)
    await a_volume(cluster, "far", node="n2")
    await finish(cluster, "data", "far")
    await cluster.pod("p", **with_claim())
    plugin = VolumeBinding(cluster.client, timeout=60)
    with pytest.raises(BindFailed, match="volume far of claim default/data cannot be reached from node n1"):
        await plugin.pre_bind(await work(cluster, "p"))


def reads_of_claims(cluster):
    return sum(
        entry["count"]
        for entry in cluster.server.counts.report()
        if (entry["verb"], entry["resource"]) == ("get", "persistentvolumeclaims")
    )


async def begun(cluster, prepared):
    """The binding of the pod's claims, after it has looked at the claim and found it without a volume."""
    before = reads_of_claims(cluster)
    task = asyncio.create_task(VolumeBinding(cluster.client, timeout=600).pre_bind(prepared))
    # With the second look everything is done that the first one asks for.
    await eventually(lambda: task.done() or reads_of_claims(cluster) >= before + 2)
    return task


async def outcome(task):
    """Why the pod is not bound; empty if it can be."""
    try:
        await task
    except BindFailed as error:
        return str(error)
    return ""


@pytest.mark.parametrize("reached", [True, False])
async def test_a_volume_that_is_made_for_another_pod_is_waited_for_and_must_be_reached(cluster, reached):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    await select(cluster, "n2")
    await cluster.pod("p", **with_claim())
    task = await begun(cluster, await work(cluster, "p"))
    assert selected_node(await the_claim(cluster)) == "n2"
    await a_volume(cluster, "made", node="n1" if reached else "n2")
    await finish(cluster, "data", "made")
    told = "volume made of claim default/data cannot be reached from node n1"
    assert await outcome(task) == ("" if reached else told)


async def test_a_claim_for_which_another_pod_took_a_volume_gets_no_second_one(cluster):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster)
    await a_claim(cluster)
    await a_volume(cluster, "near", node="n1")
    await a_volume(cluster, "taken", node="n2")
    uid = (await the_claim(cluster))["metadata"]["uid"]
    reference = {"claimRef": {"namespace": "default", "name": "data", "uid": uid}}
    await cluster.client.patch(PVS, "taken", {"spec": reference})
    await cluster.pod("p", **with_claim())
    task = await begun(cluster, await work(cluster, "p"))
    assert "claimRef" not in (await cluster.client.get(PVS, "near"))["spec"]
    await finish(cluster, "data", "taken")
    assert await outcome(task) == "volume taken of claim default/data cannot be reached from node n1"


async def test_a_claim_that_changes_as_its_volume_is_asked_for_is_looked_at_again(cluster):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    await cluster.pod("p", **with_claim())
    cluster.fault(verb="patch", resource="persistentvolumeclaims", status=409, count=1)
    task = await begun(cluster, await work(cluster, "p"))
    await eventually(lambda: the_claim(cluster), lambda claim: selected_node(claim) == "n1")
    await a_volume(cluster, "made", node="n1")
    await finish(cluster, "data", "made")
    assert await outcome(task) == ""


@pytest.mark.parametrize("asked_by", ["this pod", "another pod"])
async def test_a_provisioner_that_gives_up_is_noticed_at_once(cluster, asked_by):
    await cluster.node("n1")
    await a_class(cluster, provisioner="example.com/disks")
    await a_claim(cluster)
    if asked_by == "another pod":
        await select(cluster, "n1")
    await cluster.pod("p", **with_claim())
    task = await begun(cluster, await work(cluster, "p"))
    await select(cluster, None)
    told = "no volume could be made for claim default/data on node n1: see the events of the claim"
    async with within("the binding has failed"):
        assert await outcome(task) == told


@pytest.mark.parametrize("owner", ["p", "another"])
async def test_the_claim_of_an_ephemeral_volume_must_have_been_made_for_the_pod(cluster, owner):
    await cluster.node("n1", labels={"kubernetes.io/hostname": "n1"})
    await a_class(cluster)
    await cluster.pod("another")
    await cluster.pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    uid = (await cluster.get(owner))["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid, "controller": True}
    await a_claim(cluster, "p-scratch", ownerReferences=[reference])
    await a_volume(cluster, "v", node="n1")
    await finish(cluster, "p-scratch", "v")
    told = await outcome(VolumeBinding(cluster.client, timeout=60).pre_bind(await work(cluster, "p")))
    assert ("claim default/p-scratch was not made for" in told) is (owner == "another")


# --- devices -----------------------------------------------------------------------------------
ALLOCATION = {
    "devices": {
        "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}],
    }
}


async def a_resource_claim(cluster, name="gpu"):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
    body = {"metadata": {"name": name}, "spec": spec}
    return await cluster.client.create(RESOURCE_CLAIMS, body, namespace="default")


def with_device(name="gpu"):
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}


async def claim_status(cluster, name="gpu"):
    claim = await cluster.client.get(RESOURCE_CLAIMS, name, namespace="default")
    return claim.get("status") or {}


async def test_a_claim_is_allocated_and_reserved_once_and_given_back(cluster):
    await a_resource_claim(cluster)
    await cluster.pod("p", **with_device())
    plugin = DynamicResources(cluster.client, timeout=10)
    item = {"name": "gpu", "allocation": ALLOCATION}
    prepared = await work(cluster, "p", claim_allocations=(item,))
    await plugin.pre_bind(prepared)
    await plugin.pre_bind(prepared)
    status = await claim_status(cluster)
    assert status["allocation"] == ALLOCATION
    assert [user["name"] for user in status["reservedFor"]] == ["p"]
    await plugin.rollback(prepared)
    assert await claim_status(cluster) == {}


async def test_a_shared_claim_keeps_its_allocation_as_long_as_somebody_uses_it(cluster):
    await a_resource_claim(cluster)
    plugin = DynamicResources(cluster.client, timeout=10)
    item = {"name": "gpu", "allocation": ALLOCATION}
    users = []
    for name in ("a", "b"):
        await cluster.pod(name, **with_device())
        users.append(await work(cluster, name, claim_allocations=(item,)))
        await plugin.pre_bind(users[-1])
    await plugin.rollback(users[0])
    status = await claim_status(cluster)
    assert status["allocation"] == ALLOCATION
    assert [user["name"] for user in status["reservedFor"]] == ["b"]


async def test_a_claim_that_is_deleted_in_use_stays_and_takes_nobody_else(cluster):
    await a_resource_claim(cluster)
    plugin, item = DynamicResources(cluster.client, timeout=10), {"name": "gpu", "allocation": ALLOCATION}
    for name in ("a", "b"):
        await cluster.pod(name, **with_device())
    first, second = [await work(cluster, name, claim_allocations=(item,)) for name in ("a", "b")]
    await plugin.pre_bind(first)
    await cluster.client.delete(RESOURCE_CLAIMS, "gpu", namespace="default")
    assert (await claim_status(cluster))["allocation"] == ALLOCATION
    with pytest.raises(BindFailed, match="resourceclaim gpu is being deleted"):
        await plugin.pre_bind(second)
    assert [user["name"] for user in (await claim_status(cluster))["reservedFor"]] == ["a"]


BROUGHT = {
    "devices": {
        "results": [
            ALLOCATION["devices"]["results"][0]
            | {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
        ]
    }
}


@asynccontextmanager
async def a_device_brought(cluster):
    """A pod whose device is allocated, but not yet on its node: what prepares it."""
    await a_resource_claim(cluster)
    await cluster.pod("p", **with_device())
    prepared = await work(cluster, "p", claim_allocations=({"name": "gpu", "allocation": BROUGHT},))
    preparing = asyncio.create_task(DynamicResources(cluster.client, timeout=600).pre_bind(prepared))

    async def allocated():
        return (await claim_status(cluster)).get("allocation") == BROUGHT

    await cluster.until(allocated)
    async with within("the claim is prepared"):
        yield preparing


async def write_status(cluster, **status):
    patch = {"status": status}
    await cluster.client.patch(RESOURCE_CLAIMS, "gpu", patch, namespace="default", subresource="status")


async def tell_of_device(cluster, device="gpu-0", **conditions):
    """What the driver does once it has brought a device to the node, or could not."""
    told = [{"type": each, "status": status, "message": "cable"} for each, status in conditions.items()]
    entry = {"driver": "gpu.example.com", "pool": "n1", "device": device, "conditions": told}
    await write_status(cluster, devices=[entry])


async def test_a_device_that_is_brought_to_the_node_is_waited_for(cluster):
    async with a_device_brought(cluster) as preparing:
        await tell_of_device(cluster, Attached="False")
        await tell_of_device(cluster, device="gpu-1", Attached="True")
        assert not preparing.done()
        await tell_of_device(cluster, Attached="True", Broken="False")
        await preparing


async def test_a_device_that_cannot_be_brought_is_a_failure_of_its_node(cluster):
    async with a_device_brought(cluster) as preparing:
        await tell_of_device(cluster, Broken="True")
        with pytest.raises(BindFailed, match="resourceclaim gpu cannot be used: Broken: cable") as told:
            await preparing
    assert told.value.node_at_fault


async def test_a_claim_that_loses_its_devices_while_they_are_waited_for_is_a_failure(cluster):
    async with a_device_brought(cluster) as preparing:
        await write_status(cluster, allocation=None, reservedFor=None)
        with pytest.raises(BindFailed, match="allocated otherwise meanwhile"):
            await preparing


async def test_a_claim_that_is_deleted_while_its_devices_are_waited_for_is_a_failure(cluster):
    async with a_device_brought(cluster) as preparing:
        unprotected = {"metadata": {"finalizers": None}}
        await cluster.client.patch(RESOURCE_CLAIMS, "gpu", unprotected, namespace="default")
        await cluster.client.delete(RESOURCE_CLAIMS, "gpu", namespace="default")
        with pytest.raises(BindFailed, match="default/gpu was deleted meanwhile"):
            await preparing


async def test_a_device_that_does_not_come_in_time_is_a_failure(cluster):
    await a_resource_claim(cluster)
    await cluster.pod("p", **with_device())
    prepared = await work(cluster, "p", claim_allocations=({"name": "gpu", "allocation": BROUGHT},))
    with pytest.raises(BindFailed, match=r"resource claims of pod default/p: .* after 0\.3 s"):
        await DynamicResources(cluster.client, timeout=0.3).pre_bind(prepared)


@pytest.mark.parametrize(("verb", "subresource"), [("update", "status"), ("patch", "")])
async def test_conflicts_over_a_claim_are_tried_again(cluster, verb, subresource):
    await a_resource_claim(cluster)
    await cluster.pod("p", **with_device())
    prepared = await work(cluster, "p", claim_allocations=({"name": "gpu", "allocation": ALLOCATION},))
    cluster.fault(verb=verb, resource="resourceclaims", subresource=subresource, status=409, count=3)
    await DynamicResources(cluster.client, timeout=10).pre_bind(prepared)
    assert (await claim_status(cluster))["allocation"] == ALLOCATION


async def test_extended_resources_get_a_claim_of_their_own_once(cluster):
    await cluster.pod("p")
    extended = {
        "allocation": ALLOCATION,
        "deviceRequests": [
            {"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
        ],
        "containerMappings": [
            {
                "containerName": "main",
                "resourceName": "example.com/gpu",
                "requestName": "container-0-request-0",
            }
        ],
    }
    plugin = DynamicResources(cluster.client, timeout=10)
    prepared = await work(cluster, "p", extended_claim=extended)
    await plugin.pre_bind(prepared)
    await plugin.pre_bind(prepared)
    (claim,) = await cluster.client.list(RESOURCE_CLAIMS, namespace="default")
    assert claim["metadata"]["name"].startswith("p-extended-resources-")
    assert claim["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
    assert claim["status"]["allocation"] == ALLOCATION
    pod = await cluster.get("p")
    told = pod["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == claim["metadata"]["name"]
    assert told["requestMappings"] == extended["containerMappings"]
    await plugin.rollback(prepared)

    async def gone():
        return not await cluster.client.list(RESOURCE_CLAIMS, namespace="default")

    await cluster.until(gone)
    assert "extendedResourceClaimStatus" not in (await cluster.get("p"))["status"]


def for_extended(*requests):
    """What is decided for extended resources: by name of the request, how many devices."""
    exact = {"deviceClassName": "gpu.example.com"}
    return {
        "allocation": ALLOCATION,
        "deviceRequests": [{"name": name, "exactly": exact | {"count": count}} for name, count in requests],
        "containerMappings": [],
    }


async def test_a_claim_of_an_attempt_that_asked_for_something_else_is_made_anew(cluster):
    await cluster.pod("p")
    plugin = DynamicResources(cluster.client, timeout=10)
    names = []
    for requests in ([("a", 1)], [("a", 1)], [("a", 2)], [("a", 2), ("b", 1)]):
        await plugin.pre_bind(await work(cluster, "p", extended_claim=for_extended(*requests)))
        (claim,) = await cluster.client.list(RESOURCE_CLAIMS, namespace="default")
        names.append(claim["metadata"]["name"])
        told = (await cluster.get("p"))["status"]["extendedResourceClaimStatus"]
        assert told["resourceClaimName"] == names[-1]
    assert names[0] == names[1]
    assert len(set(names)) == 3


async def test_a_claim_of_an_earlier_attempt_goes_where_a_device_plugin_offers_the_same(cluster):
    """That attempt was dropped with its binder, and the kubelet would wait for the claim for ever."""
    await cluster.node("n1")
    await cluster.pod("p")
    plugin = DynamicResources(cluster.client, timeout=10)
    await plugin.pre_bind(await work(cluster, "p", extended_claim=for_extended(("a", 1))))
    async with cluster.scheduler(), cluster.binder():
        assert await cluster.bound("p") == ["n1"]
    assert await cluster.client.list(RESOURCE_CLAIMS, namespace="default") == []
    assert "extendedResourceClaimStatus" not in (await cluster.get("p"))["status"]


async def test_a_claim_that_the_status_of_a_pod_names_falsely_stays(cluster):
    await a_resource_claim(cluster)
    await cluster.pod("p")
    patch = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "gpu", "requestMappings": []}}}
    await cluster.client.patch(PODS, "p", patch, namespace="default", subresource="status")
    await DynamicResources(cluster.client, timeout=10).pre_bind(await work(cluster, "p"))
    await cluster.client.get(RESOURCE_CLAIMS, "gpu", namespace="default")
    assert "extendedResourceClaimStatus" not in (await cluster.get("p"))["status"]


async def test_who_was_decided_to_have_other_devices_than_the_claim_has_is_not_bound(cluster):
    await a_resource_claim(cluster)
    await cluster.pod("a", **with_device())
    await cluster.pod("b", **with_device())
    plugin = DynamicResources(cluster.client, timeout=10)
    await plugin.pre_bind(
        await work(cluster, "a", claim_allocations=({"name": "gpu", "allocation": ALLOCATION},))
    )
    (result,) = ALLOCATION["devices"]["results"]
    other = {"devices": {"results": [result | {"device": "gpu-1"}]}}
    late = await work(cluster, "b", claim_allocations=({"name": "gpu", "allocation": other},))
    with pytest.raises(BindFailed, match="resourceclaim gpu was allocated otherwise meanwhile"):
        await plugin.pre_bind(late)
    assert [user["name"] for user in (await claim_status(cluster))["reservedFor"]] == ["a"]


async def test_a_claim_that_does_not_exist_is_a_failure_that_names_it(cluster):
    await cluster.pod("p", **with_device("nothing"))
    prepared = await work(cluster, "p", claim_allocations=({"name": "gpu", "allocation": ALLOCATION},))
    with pytest.raises(BindFailed, match="resourceclaim default/nothing does not exist"):
        await DynamicResources(cluster.client, timeout=10).pre_bind(prepared)
    with pytest.raises(errors.NotFound):
        await cluster.client.get(RESOURCE_CLAIMS, "nothing", namespace="default")
