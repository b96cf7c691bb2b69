"""Pods that wait for parts of GPUs, and nodes that come for them."""

import uuid

import pytest

from e2e.harness import local_cluster
from e2e.manifests import a_job, a_pod, as_yaml, on
from kai.kube.resources import EVENTS, PODS
from kai.model import names
from kai.model.objects import Pod
from kai_local.kubelet.nodes import NodeShape

SCALING = names.SCALE_ADJUST_NAMESPACE
HALF = {"annotations": {names.GPU_FRACTION: "0.5"}}
SMALL = NodeShape(gpus=1)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Instead of the suite's cluster, one without nodes, that has them added."""
    kubeconfig, name = tmp_path_factory.mktemp("scale") / "kubeconfig", f"scale-{uuid.uuid4().hex[:8]}"
    pause = "--flag=node-scale-adjuster:cool-down=3s"
    with local_cluster(name, kubeconfig, "--nodes=0", "--autoscaling", pause):
        yield name, kubeconfig


async def scaling_pods(cluster, count):
    """Wait until there are so many; they."""

    async def look():
        return await cluster.client.list(PODS, namespace=SCALING, type=Pod)

    what = f"there are {count} scaling pods"
    return await cluster.eventually(look, lambda pods: len(pods) == count, what=what)


def devices_of(pods):
    return sorted(int(pod.spec.containers[0].resources.limits[names.NVIDIA_GPU]) for pod in pods)


async def test_a_node_comes_for_a_pod_that_waits_for_a_part_of_a_gpu(cluster, queue, node, namespace):
    await cluster.apply(as_yaml(a_pod("half", namespace, await queue(), **HALF)))
    (scaling,) = await scaling_pods(cluster, 1)
    assert scaling.metadata.name == f"{namespace}-half"
    assert scaling.spec.scheduler_name == names.SCALING_POD_SCHEDULER

    async def marked():
        found = await cluster.client.get(PODS, scaling.metadata.name, namespace=SCALING, type=Pod)
        return [c.reason for c in found.status.conditions or () if c.type == "PodScheduled"]

    await cluster.eventually(marked, lambda found: found == ["Unschedulable"], what="autoscalers see it")

    async def told():
        return {event["reason"] for event in await cluster.client.list(EVENTS, namespace=namespace)}

    await cluster.eventually(told, lambda found: "ScaleUpRequested" in found, what="its owner is told")
    await node(SMALL)  # what a cluster autoscaler would do
    await cluster.running(namespace, "half", count=1)
    await scaling_pods(cluster, 0)


async def test_a_gpu_that_is_freed_is_for_who_waits_for_it_and_not_for_a_scaling_pod(
    cluster, queue, node, namespace
):
    """Two schedulers would give it away at the same moment, and its node would refuse the pod for good."""
    mine, place = await queue(), on(await node(SMALL))
    before = {"labels": {"priorityClassName": "build"}}
    await cluster.apply(as_yaml(a_pod("first", namespace, mine, gpus=1, spec=place, **before)))
    await cluster.running(namespace, "first", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, mine, gpus=1, spec=place, **before)))
    await cluster.waits(namespace, "second")
    await cluster.apply(as_yaml(a_pod("half", namespace, mine, spec=place, **HALF)))
    (scaling,) = await scaling_pods(cluster, 1)
    await cluster.delete("v1", "Pod", "first", namespace=namespace)
    await cluster.running(namespace, "second", count=1)
    (still,) = await scaling_pods(cluster, 1)
    assert (still.metadata.uid, still.spec.node_name) == (scaling.metadata.uid, "")


async def test_two_halves_have_one_gpu_added_and_share_it(cluster, queue, node, namespace):
    await cluster.apply(as_yaml(a_job("pair", namespace, await queue(), pods=2, gang=2, **HALF)))
    assert devices_of(await scaling_pods(cluster, 1)) == [1]
    await node(SMALL)
    await cluster.running(namespace, count=2)
    await scaling_pods(cluster, 0)


async def test_several_devices_are_asked_for_on_one_node(cluster, queue, node, namespace):
    annotations = HALF["annotations"] | {names.GPU_FRACTION_NUM_DEVICES: "2"}
    await cluster.apply(as_yaml(a_pod("pair", namespace, await queue(), annotations=annotations)))
    assert devices_of(await scaling_pods(cluster, 1)) == [2]
    await node(NodeShape(gpus=2))
    await cluster.running(namespace, count=1)
    await scaling_pods(cluster, 0)


async def test_what_waits_no_more_is_not_asked_for_any_more(cluster, queue, namespace):
    await cluster.apply(as_yaml(a_pod("half", namespace, await queue(), **HALF)))
    await scaling_pods(cluster, 1)
    await cluster.delete("v1", "Pod", "half", namespace=namespace)
    await scaling_pods(cluster, 0)


async def test_the_node_has_to_suit_the_pod(cluster, queue, node, namespace):
    """A node that the pod may not go to is of no use to its scaling pod either."""
    where = on("elsewhere")
    await cluster.apply(as_yaml(a_pod("half", namespace, await queue(), spec=where, **HALF)))
    (scaling,) = await scaling_pods(cluster, 1)
    assert scaling.spec.node_selector == where["nodeSelector"]
    await node(SMALL)
    await cluster.waits(namespace, "half")
    (still,) = await scaling_pods(cluster, 1)
    assert (still.metadata.uid, still.spec.node_name) == (scaling.metadata.uid, "")
