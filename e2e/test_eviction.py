"""Who has to make room for whom: preemption within a queue, reclaim between queues, consolidation."""

import pytest

from e2e.manifests import a_job, a_pod, as_yaml
from kai.kube.resources import NODES
from kai.model.objects import Node


def labels(priority: str = "", preemptibility: str = "") -> dict[str, str]:
    found = {"priorityClassName": priority, "kai.scheduler/preemptibility": preemptibility}
    return {key: value for key, value in found.items() if value}


# --- preemption ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        (labels("train"), labels("build")),
        (labels("train"), labels("build-preemptible")),
        (labels("build", "preemptible"), labels("inference")),
    ],
    ids=["train by build", "train by build-preemptible", "preemptible build by inference"],
)
async def test_more_urgent_work_takes_the_place(cluster, queue, namespace, running, waiting):
    name = await queue(gpus=1, limit=1)
    await cluster.apply(as_yaml(a_pod("victim", namespace, name, gpus=1, labels=running)))
    await cluster.running(namespace, "victim", count=1)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=waiting)))
    await cluster.running(namespace, "urgent", count=1)
    assert not await cluster.pods(namespace, "victim")


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        (labels("build"), labels("inference")),
        (labels("train"), labels("train")),
        (labels("train", "non-preemptible"), labels("build")),
        (labels("build-preemptible"), labels("train")),
    ],
    ids=["build by inference", "train by train", "non-preemptible train by build", "less urgent"],
)
async def test_work_that_need_not_give_way_stays(cluster, queue, namespace, running, waiting):
    name = await queue(gpus=1, limit=1)
    await cluster.apply(as_yaml(a_pod("first", namespace, name, gpus=1, labels=running)))
    [before] = await cluster.running(namespace, "first", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=1, labels=waiting)))
    await cluster.waits(namespace, "second")
    [after] = await cluster.running(namespace, "first", count=1)
    assert after.metadata.uid == before.metadata.uid


async def test_preemption_takes_no_more_than_is_needed(cluster, queue, namespace):
    name = await queue(gpus=4, limit=4)
    await cluster.apply(as_yaml(*(a_pod(f"low-{i}", namespace, name, gpus=1) for i in range(4))))
    await cluster.running(namespace, "low", count=4)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=2, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=2)


async def test_a_gang_gives_way_as_a_whole(cluster, queue, namespace):
    name = await queue(gpus=4, limit=4)
    await cluster.apply(as_yaml(a_job("gang", namespace, name, pods=4, gang=4, gpus=1)))
    await cluster.running(namespace, "gang", count=4)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "gang", count=0)


async def test_an_elastic_job_gives_only_what_is_beyond_its_minimum(cluster, queue, namespace):
    name = await queue(gpus=4, limit=4)
    await cluster.apply(as_yaml(a_job("elastic", namespace, name, pods=4, gang=2, gpus=1)))
    await cluster.running(namespace, "elastic", count=4)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=2, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "elastic", count=2)


# --- reclaim -------------------------------------------------------------------------------------
async def test_a_queue_gets_back_its_quota_from_one_beyond_its_own(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    greedy, modest = await queue(parent=parent, gpus=2), await queue(parent=parent, gpus=2)
    await cluster.apply(as_yaml(*(a_pod(f"greedy-{i}", namespace, greedy, gpus=1) for i in range(4))))
    await cluster.running(namespace, "greedy", count=4)
    await cluster.apply(as_yaml(*(a_pod(f"modest-{i}", namespace, modest, gpus=1) for i in range(2))))
    await cluster.running(namespace, "modest", count=2)
    await cluster.running(namespace, "greedy", count=2)


async def test_nothing_is_taken_from_a_queue_within_its_quota(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    first, second = await queue(parent=parent, gpus=4), await queue(parent=parent, gpus=0)
    await cluster.apply(as_yaml(*(a_pod(f"first-{i}", namespace, first, gpus=1) for i in range(4))))
    before = await cluster.running(namespace, "first", count=4)
    await cluster.apply(as_yaml(a_pod("second", namespace, second, gpus=1)))
    await cluster.waits(namespace, "second")
    after = await cluster.running(namespace, "first", count=4)
    assert {pod.metadata.uid for pod in after} == {pod.metadata.uid for pod in before}


async def test_work_that_cannot_be_preempted_is_not_reclaimed(cluster, queue, namespace):
    parent = await queue(gpus=2, limit=2)
    first, second = await queue(parent=parent, gpus=2), await queue(parent=parent, gpus=2)
    fixed = [a_pod(f"first-{i}", namespace, first, gpus=1, labels=labels("build")) for i in range(2)]
    await cluster.apply(as_yaml(*fixed))
    await cluster.running(namespace, "first", count=2)
    await cluster.apply(as_yaml(a_pod("second", namespace, second, gpus=1)))
    await cluster.waits(namespace, "second")
    await cluster.running(namespace, "first", count=2)


async def test_a_gang_reclaims_for_all_its_pods(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    greedy, modest = await queue(parent=parent, gpus=0), await queue(parent=parent, gpus=4)
    await cluster.apply(as_yaml(a_job("greedy", namespace, greedy, pods=4, gang=1, gpus=1)))
    await cluster.running(namespace, "greedy", count=4)
    await cluster.apply(as_yaml(a_job("modest", namespace, modest, pods=2, gang=2, gpus=2)))
    await cluster.running(namespace, "modest", count=2)
    await cluster.running(namespace, "greedy", count=0)


# --- consolidation -------------------------------------------------------------------------------
async def test_scattered_work_moves_together_for_what_needs_a_whole_node(cluster, queue, namespace):
    """Two nodes with 3 of 8 GPUs used each have no room for 8, one with 6 and one with none has."""
    nodes = sorted(node.metadata.name for node in await cluster.client.list(NODES, type=Node))[:2]
    pair = {"nodeSelector": {f"e2e.example.com/{namespace}": "yes"}}
    label = {"metadata": {"labels": {f"e2e.example.com/{namespace}": "yes"}}}
    for node in nodes:
        await cluster.client.patch(NODES, node, label)
    name = await queue()
    await cluster.apply(as_yaml(a_job("one", namespace, name, pods=1, gpus=3, spec=pair)))
    [one] = await cluster.running(namespace, "one", count=1)
    there = {"nodeSelector": {"kubernetes.io/hostname": one.spec.node_name}}
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
