"""Devices of DRA drivers: claimed by templates, or asked for as a resource that stands for a class."""

from dataclasses import replace

import pytest

from e2e.manifests import a_group, a_pod, as_yaml
from e2e.test_queues import kubectl
from kai.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai.model import names
from kai_local.kubelet.nodes import NodeShape


async def devices(cluster, namespace) -> list[str]:
    """What is allocated to claims that a pod has reserved; each device may be there once only."""
    claims = await cluster.client.list(RESOURCE_CLAIMS, namespace=namespace)
    used = [
        (result["pool"], result["device"])
        for claim in claims
        if claim.get("status", {}).get("reservedFor")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(set(used)) == len(used), claims
    return sorted(device for _, device in used)


# --- claims ---------------------------------------------------------------------------------------
async def test_each_pod_gets_a_device_of_its_own_and_gives_it_back(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(2)
    await cluster.apply(as_yaml(found.template(namespace)))
    await cluster.apply(as_yaml(*(found.a_pod(f"p{i}", namespace, name) for i in range(2))))
    await cluster.running(namespace, count=2)
    assert await devices(cluster, namespace) == ["gpu-0", "gpu-1"]

    await cluster.apply(as_yaml(found.a_pod("q", namespace, name)))
    await cluster.waits(namespace, "q")
    await cluster.delete("v1", "Pod", "p0", namespace=namespace)
    await cluster.running(namespace, "q", count=1)
    assert await devices(cluster, namespace) == ["gpu-0", "gpu-1"]


async def test_a_claim_of_a_class_that_does_not_exist_waits_and_says_so(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1)
    wrong = found.template(namespace, device_class="nothing.example.com")
    await cluster.apply(as_yaml(wrong, found.a_pod("p", namespace, name)))
    await cluster.waits(namespace, "p", saying="nothing.example.com")


async def test_claimed_devices_count_for_the_queue(cluster, queue, driver, namespace):
    name, found = await queue(limit=2), await driver(3)
    await cluster.apply(as_yaml(found.template(namespace), found.template(namespace, devices=2)))
    await cluster.apply(as_yaml(found.a_pod("pair", namespace, name, devices=2)))
    await cluster.running(namespace, "pair", count=1)
    await cluster.apply(as_yaml(found.a_pod("one", namespace, name)))
    await cluster.waits(namespace, "one", reason="OverLimit")


async def test_a_gang_gets_all_its_devices_or_none(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1, 2)
    await cluster.apply(as_yaml(found.template(namespace), a_group("gang", namespace, name, minMember=4)))
    annotations = {names.POD_GROUP_ANNOTATION: "gang"}
    gang = [found.a_pod(f"gang-{i}", namespace, name, annotations=annotations) for i in range(4)]
    await cluster.apply(as_yaml(*gang))
    await cluster.waits(namespace, "gang")
    assert not [pod for pod in await cluster.pods(namespace) if pod.spec.node_name]


async def test_a_shared_claim_gives_its_device_back_after_its_last_pod(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1)
    await cluster.apply(as_yaml(*(found.a_claim(each, namespace, name) for each in ("ours", "next"))))
    pods = [found.a_sharer(f"p{i}", namespace, name, claim="ours") for i in range(2)]
    await cluster.apply(as_yaml(*pods))
    await cluster.running(namespace, count=2)
    await cluster.apply(
        as_yaml(*(found.a_sharer(f"late-{i}", namespace, name, claim="next") for i in range(2)))
    )
    await cluster.waits(namespace, "late-0")
    for pod in ("p0", "p1"):
        kubectl(cluster, "delete", "pod", pod, f"--namespace={namespace}")
    await cluster.running(namespace, count=2)
    assert await devices(cluster, namespace) == ["gpu-0"]


async def test_a_claim_that_is_deleted_in_use_goes_after_its_pod(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1)
    await cluster.apply(as_yaml(found.a_claim("ours", namespace, name)))
    await cluster.apply(as_yaml(found.a_sharer("p", namespace, name, claim="ours")))
    await cluster.running(namespace, count=1)
    kubectl(cluster, "delete", "resourceclaim", "ours", f"--namespace={namespace}", "--wait=false")
    assert await devices(cluster, namespace) == ["gpu-0"]
    kubectl(cluster, "delete", "pod", "p", f"--namespace={namespace}")

    async def claims():
        return await cluster.client.list(RESOURCE_CLAIMS, namespace=namespace)

    await cluster.eventually(claims, lambda found: not found, what="the claim is gone")


async def test_a_device_that_a_pod_without_a_place_holds_is_given_back(cluster, queue, driver, namespace):
    """As a binder leaves it that ends between the claim and the pod."""
    name, found = await queue(), await driver(1)
    published = [each["spec"] for each in await cluster.client.list(RESOURCE_SLICES)]
    [where] = [spec["nodeName"] for spec in published if spec["driver"] == found.name]
    nowhere = found.a_sharer("nowhere", namespace, name, claim="left")
    nowhere["spec"]["nodeSelector"] = {"no": "where"}
    await cluster.apply(as_yaml(found.a_claim("left", namespace, name), nowhere))
    pod = await cluster.client.get(PODS, "nowhere", namespace=namespace)
    left = await cluster.client.get(RESOURCE_CLAIMS, "left", namespace=namespace)
    result = {"request": "gpu", "driver": found.name, "pool": where, "device": "gpu-0"}
    left["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "nowhere", "uid": pod["metadata"]["uid"]}],
    }
    await cluster.client.update(RESOURCE_CLAIMS, "left", left, namespace=namespace, subresource="status")
    await cluster.apply(as_yaml(found.a_claim("ours", namespace, name)))
    await cluster.apply(as_yaml(found.a_sharer("p", namespace, name, claim="ours")))
    await cluster.running(namespace, "p", count=1)
    assert await devices(cluster, namespace) == ["gpu-0"]


# --- resources with a device class behind them ----------------------------------------------------
def asking(pod, resource, count=1):
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {resource: str(count)}
    return pod


@pytest.fixture
async def extended(cluster, driver):
    """Makes a driver whose devices are to be had as a resource, where the API server knows of that."""

    async def make(*counts, **more):
        found = await driver(*counts, extended=True, **more)
        kept = await cluster.client.raw(f"/apis/resource.k8s.io/v1/deviceclasses/{found.name}")
        if not kept["spec"].get("extendedResourceName"):
            pytest.skip("this API server has no extended resources of device classes")
        return found

    return make


async def test_a_resource_of_a_device_class_needs_no_claim_of_the_user(cluster, queue, extended, namespace):
    name, found = await queue(), await extended(2)
    pods = [asking(a_pod(f"p{i}", namespace, name, spec=found.here), found.extended) for i in range(2)]
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(*pods))
    assert warned == ""
    await cluster.running(namespace, count=2)
    assert await devices(cluster, namespace) == ["gpu-0", "gpu-1"]
    late = asking(a_pod("late", namespace, name, spec=found.here), found.extended)
    await cluster.apply(as_yaml(late))
    await cluster.waits(namespace, "late")


async def test_a_resource_without_a_device_class_is_warned_of(cluster, namespace):
    pod = asking(a_pod("p", namespace, "default-queue"), "none.example.com/gpu")
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(pod))
    assert "it asks for none.example.com/gpu, which no node offers" in warned


async def test_a_device_class_of_the_same_manifest_is_known(cluster, extended, namespace):
    found = await extended(1)
    late = replace(found, name=f"{found.name}.late", extended=f"{found.name}/late")
    pod = asking(a_pod("p", namespace, "default-queue"), late.extended)
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(late.device_class(), pod))
    kubectl(cluster, "delete", "deviceclass", late.name)
    assert warned == ""


async def test_a_gang_of_two_gets_such_a_resource_on_two_nodes(cluster, queue, extended, namespace):
    name, found = await queue(), await extended(1, 1)
    annotations = {names.POD_GROUP_ANNOTATION: "gang"}
    pods = [
        asking(a_pod(f"gang-{i}", namespace, name, annotations=annotations, spec=found.here), found.extended)
        for i in range(2)
    ]
    await cluster.apply(as_yaml(a_group("gang", namespace, name, minMember=2), *pods))
    running = await cluster.running(namespace, count=2)
    assert len({pod.spec.node_name for pod in running}) == 2


async def test_init_containers_ask_for_such_a_resource_by_their_maximum(cluster, queue, extended, namespace):
    name, found = await queue(), await extended(3)
    pod = asking(a_pod("p", namespace, name, spec=found.here), found.extended)
    pod["spec"]["initContainers"] = [
        {"name": f"init-{n}", "image": "x", "resources": {"limits": {found.extended: str(n)}}} for n in (1, 2)
    ]
    await cluster.apply(as_yaml(pod))
    await cluster.running(namespace, count=1)
    assert len(await devices(cluster, namespace)) == 2


async def test_where_a_device_plugin_offers_the_resource_it_is_not_claimed(
    cluster, queue, extended, node, namespace
):
    """One node has two devices of the driver, one has as many of a device plugin: four in all."""
    name, found = await queue(), await extended(2)
    await node(NodeShape(gpus=0, resources={found.extended: "2"}, labels=dict(found.here["nodeSelector"])))
    pods = [asking(a_pod(f"p{i}", namespace, name, spec=found.here), found.extended) for i in range(4)]
    await cluster.apply(as_yaml(*pods))
    await cluster.running(namespace, count=4)
    assert await devices(cluster, namespace) == ["gpu-0", "gpu-1"]
