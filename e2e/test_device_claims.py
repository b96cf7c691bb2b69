"""Devices that pods claim by template, with the class and the slices that a DRA driver would write."""

from e2e.manifests import as_yaml
from kai.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kai.model.objects import Node

DRIVER = "gpu.example.com"
EACH = 2


def a_device_class():
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [selector]},
    }


def a_slice(node):
    devices = [{"name": f"gpu-{i}", "attributes": {"model": {"string": "a100"}}} for i in range(EACH)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def a_template(namespace):
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def a_claiming_pod(name, namespace, queue):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kai.scheduler/queue": queue}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "priorityClassName": "train",
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }


async def test_each_pod_gets_a_device_of_its_own_and_gives_it_back(cluster, queue, namespace):
    name = await queue()
    node = min(node.metadata.name for node in await cluster.client.list(NODES, type=Node))
    await cluster.apply(as_yaml(a_device_class(), a_slice(node), a_template(namespace)))
    try:
        pods = [a_claiming_pod(f"p{i}", namespace, name) for i in range(EACH)]
        await cluster.apply(as_yaml(*pods))
        running = await cluster.running(namespace, count=EACH)
        assert {pod.spec.node_name for pod in running} == {node}
        assert await devices(cluster, namespace) == {"gpu-0", "gpu-1"}

        await cluster.apply(as_yaml(a_claiming_pod("q", namespace, name)))
        await cluster.waits(namespace, "q")
        await cluster.delete("v1", "Pod", "p0", namespace=namespace)
        await cluster.running(namespace, "q", count=1)
        assert await devices(cluster, namespace) == {"gpu-0", "gpu-1"}
    finally:
        await cluster.client.delete(RESOURCE_SLICES, f"{node}-{DRIVER}")
        await cluster.delete("resource.k8s.io/v1", "DeviceClass", DRIVER)


async def devices(cluster, namespace):
    """What is allocated to claims that a pod has reserved; each device may be there once only."""
    claims = await cluster.client.list(RESOURCE_CLAIMS, namespace=namespace)
    used = [
        result["device"]
        for claim in claims
        if claim.get("status", {}).get("reservedFor")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(set(used)) == len(used), claims
    return set(used)
