"""Devices that are cut in parts by their vendor (MIG): each profile is a resource of its own."""

import uuid

import pytest

from e2e.manifests import a_pod, as_yaml
from kai.model import names
from kai_local.kubelet.nodes import NodeShape

SMALL, LARGE = "1g.10gb", "3g.40gb"


@pytest.fixture
async def mig_node(node):
    """Spec of pods that go to a node with two small parts and a large one."""
    label = f"e2e.example.com/{uuid.uuid4().hex[:8]}"
    await node(NodeShape(gpus=0, mig={SMALL: 2, LARGE: 1}, labels={label: "yes"}))
    return {"nodeSelector": {label: "yes"}}


def a_part(name, namespace, queue, profile, spec, *, priority="train"):
    pod = a_pod(name, namespace, queue, labels={"priorityClassName": priority}, spec=spec)
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {f"{names.MIG_PREFIX}{profile}": "1"}
    return pod


async def test_parts_of_each_profile_are_given_until_there_are_none(cluster, queue, mig_node, namespace):
    name = await queue()
    wanted = [SMALL, SMALL, LARGE]
    await cluster.apply(
        as_yaml(*(a_part(f"p{i}", namespace, name, wanted[i], mig_node) for i in range(len(wanted))))
    )
    pods = await cluster.running(namespace, count=3)
    assert {pod.annotations[names.RECEIVED_RESOURCE_TYPE] for pod in pods} == {"MigInstance"}
    await cluster.apply(as_yaml(a_part("late", namespace, name, SMALL, mig_node)))
    await cluster.waits(namespace, "late", saying=SMALL)


async def test_a_part_of_g_slices_counts_as_g_devices_of_the_queue(cluster, queue, mig_node, namespace):
    name = await queue(limit=3)
    await cluster.apply(as_yaml(a_part("large", namespace, name, LARGE, mig_node)))
    await cluster.running(namespace, "large", count=1)
    await cluster.apply(as_yaml(a_part("small", namespace, name, SMALL, mig_node)))
    await cluster.waits(namespace, "small", reason="OverLimit")


async def test_a_whole_device_is_not_to_be_had_where_there_are_only_parts(
    cluster, queue, mig_node, namespace
):
    name = await queue()
    whole = a_pod("whole", namespace, name, gpus=1, spec=mig_node)
    shared = a_pod("shared", namespace, name, annotations={"gpu-fraction": "0.5"}, spec=mig_node)
    for pod in (whole, shared):
        await cluster.apply(as_yaml(pod))
        await cluster.waits(namespace, pod["metadata"]["name"])


async def test_more_urgent_work_takes_the_place_of_a_part(cluster, queue, mig_node, namespace):
    name = await queue()
    await cluster.apply(as_yaml(*(a_part(f"low-{i}", namespace, name, SMALL, mig_node) for i in range(2))))
    await cluster.running(namespace, "low", count=2)
    await cluster.apply(as_yaml(a_part("urgent", namespace, name, SMALL, mig_node, priority="build")))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=1)
