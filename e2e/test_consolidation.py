"""Consolidation: running work moves together, so that what waits finds room."""

from e2e.manifests import a_job, a_pod, as_yaml, on
from kai.kube.resources import NODES
from kai.model.rules.gpu_groups import gpu_groups
from kai_local.kubelet.nodes import NodeShape


async def test_scattered_work_moves_together_for_what_needs_a_whole_node(cluster, queue, namespace):
    """Two nodes with 3 of 8 GPUs used each have no room for 8, one with 6 and one with none has."""
    nodes = (await cluster.worker_nodes())[:2]
    pair = {"nodeSelector": {f"e2e.example.com/{namespace}": "yes"}}
    label = {"metadata": {"labels": {f"e2e.example.com/{namespace}": "yes"}}}
    for node in nodes:
        await cluster.client.patch(NODES, node, label)
    name = await queue()
    await cluster.apply(as_yaml(a_job("one", namespace, name, pods=1, gpus=3, spec=pair)))
    [one] = await cluster.running(namespace, "one", count=1)
    there = on(one.spec.node_name)
    await cluster.apply(as_yaml(a_pod("plug", namespace, name, gpus=5, spec=there)))
    await cluster.running(namespace, "plug", count=1)
    await cluster.apply(as_yaml(a_job("two", namespace, name, pods=1, gpus=3, spec=pair)))
    [two] = await cluster.running(namespace, "two", count=1)
    assert two.spec.node_name != one.spec.node_name
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    await cluster.apply(as_yaml(a_pod("whole", namespace, name, gpus=8, spec=pair)))
    await cluster.running(namespace, "whole", count=1)
    both = await cluster.running(namespace, "one", count=1) + await cluster.running(namespace, "two", count=1)
    assert len({pod.spec.node_name for pod in both}) == 1


async def test_scattered_parts_move_to_one_device_for_what_needs_a_whole_one(cluster, queue, node, namespace):
    """Two devices that are half in use each have no room for a whole one, two halves on one device have."""
    there = on(await node(NodeShape(gpus=2)))
    half = {"annotations": {"gpu-fraction": "0.5"}, "spec": there}
    name = await queue()
    await cluster.apply(as_yaml(a_job("one", namespace, name, pods=1, **half)))
    await cluster.running(namespace, "one", count=1)
    await cluster.apply(as_yaml(a_pod("plug", namespace, name, **half)))
    await cluster.running(namespace, "plug", count=1)
    await cluster.apply(as_yaml(a_job("two", namespace, name, pods=1, **half)))
    await cluster.running(namespace, "two", count=1)
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    await cluster.eventually(
        lambda: cluster.pods(namespace, "plug"), lambda pods: not pods, what="the plug is gone"
    )
    await cluster.apply(as_yaml(a_pod("whole", namespace, name, gpus=1, spec=there)))
    await cluster.running(namespace, "whole", count=1)
    both = await cluster.running(namespace, "one", count=1) + await cluster.running(namespace, "two", count=1)
    assert len({group for pod in both for group in gpu_groups(pod.labels)}) == 1
