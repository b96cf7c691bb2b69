"""Pods with volumes: they go where their volumes are, or can be, and wait where there are none."""

import pytest

from e2e.manifests import a_claim, a_pod, a_volume, as_yaml, on, with_volume
from kai.kube.resources import Resource
from kai_local.kubelet.nodes import NodeShape

CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)


@pytest.fixture
async def storage_class(cluster, namespace):
    """A class of volumes that somebody makes by hand and that are bound where their pod goes."""
    name = f"local-{namespace}"
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await cluster.apply(as_yaml(body))
    yield name
    await cluster.delete("storage.k8s.io/v1", "StorageClass", name)


@pytest.fixture
async def volume(cluster, storage_class):
    """Makes volumes of that class on a node: ``await volume(node)``."""
    made = []

    async def make(node, source=None) -> str:
        name = f"{storage_class}-{len(made)}"
        await cluster.apply(as_yaml(a_volume(name, node=node, storage_class=storage_class, source=source)))
        made.append(name)
        return name

    yield make
    for name in made:
        await cluster.delete("v1", "PersistentVolume", name)


async def test_a_pod_goes_where_a_volume_for_its_claim_is(
    cluster, queue, node, namespace, storage_class, volume
):
    where, _ = await node(NodeShape(gpus=1)), await node(NodeShape(gpus=1))
    await volume(where)
    claim = a_claim("data", namespace, storage_class=storage_class)
    await cluster.apply(as_yaml(claim, with_volume(a_pod("p", namespace, await queue(), gpus=1), "data")))
    [pod] = await cluster.running(namespace, count=1)
    assert pod.spec.node_name == where


async def test_a_pod_waits_where_there_is_no_volume_and_goes_when_there_is_one(
    cluster, queue, node, namespace, storage_class, volume
):
    claim = a_claim("data", namespace, storage_class=storage_class)
    await cluster.apply(as_yaml(claim, with_volume(a_pod("p", namespace, await queue()), "data")))
    await cluster.waits(namespace, "p")
    await volume(await node(NodeShape(gpus=1)))
    await cluster.running(namespace, count=1)


async def test_a_pod_waits_for_its_claim(cluster, queue, node, namespace, storage_class, volume):
    await volume(await node(NodeShape(gpus=1)))
    await cluster.apply(as_yaml(with_volume(a_pod("p", namespace, await queue()), "data")))
    await cluster.waits(namespace, "p", saying="data")
    await cluster.apply(as_yaml(a_claim("data", namespace, storage_class=storage_class)))
    await cluster.running(namespace, count=1)


async def test_a_class_that_does_not_exist_is_told(cluster, queue, namespace):
    claim = a_claim("data", namespace, storage_class="nothing")
    await cluster.apply(as_yaml(claim, with_volume(a_pod("p", namespace, await queue()), "data")))
    await cluster.waits(namespace, "p", saying="nothing")


async def test_a_node_takes_no_more_volumes_of_a_driver_than_it_can(
    cluster, queue, node, namespace, storage_class, volume
):
    name, where = await queue(), await node(NodeShape(gpus=1))
    driver = {"name": "csi.example.com", "nodeID": where, "topologyKeys": [], "allocatable": {"count": 1}}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": where}}
    await cluster.apply(as_yaml(body | {"spec": {"drivers": [driver]}}))
    try:
        for number in range(2):
            handle = {"csi": {"driver": driver["name"], "volumeHandle": f"volume-{number}"}}
            bound = await volume(where, handle)
            claim = a_claim(f"data-{number}", namespace, storage_class=storage_class, volume=bound)
            pod = with_volume(a_pod(f"p{number}", namespace, name, spec=on(where)), f"data-{number}")
            await cluster.apply(as_yaml(claim, pod))
            if number == 0:
                await cluster.running(namespace, "p0", count=1)
        await cluster.waits(namespace, "p1")
        await cluster.delete("v1", "Pod", "p0", namespace=namespace)
        await cluster.running(namespace, "p1", count=1)
    finally:
        await cluster.client.delete(CSI_NODES, where)
