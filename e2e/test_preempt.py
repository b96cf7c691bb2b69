"""Preemption: more urgent work takes the place of less urgent work of its own queue."""

import uuid

import pytest

from e2e.manifests import a_group, a_job, a_pod, as_yaml, members, on
from kai.kube.client import PatchKind
from kai.kube.resources import POD_GROUPS
from kai.model import names
from kai_local.kubelet.nodes import NodeShape

EXTENDED = "e2e.example.com/widget"


def labels(priority: str = "", preemptibility: str = "") -> dict[str, str]:
    found = {"priorityClassName": priority, "kai.scheduler/preemptibility": preemptibility}
    return {key: value for key, value in found.items() if value}


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


async def test_an_elastic_job_gives_way_as_a_whole_where_its_surplus_is_not_enough(cluster, queue, namespace):
    name = await queue(gpus=4, limit=4)
    await cluster.apply(as_yaml(a_job("elastic", namespace, name, pods=4, gang=2, gpus=1)))
    await cluster.running(namespace, "elastic", count=4)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=3, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "elastic", count=0)


async def test_pods_of_the_least_order_go_first(cluster, queue, namespace):
    name = await queue(gpus=4, limit=4)
    await cluster.apply(as_yaml(a_group("elastic", namespace, name, minMember=1, priorityClassName="train")))
    pods = members("elastic", namespace, name, "", 4, gpus=1)
    for number, pod in enumerate(pods):
        pod["metadata"]["labels"] |= {"kai.scheduler/task-priority": str(number % 2)}
    await cluster.apply(as_yaml(*pods))
    await cluster.running(namespace, "elastic", count=4)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=2, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    left = await cluster.running(namespace, "elastic", count=2)
    assert {pod.metadata.name for pod in left} == {"elastic-1", "elastic-3"}


async def test_of_a_group_of_parts_only_those_beyond_its_minimum_go(cluster, queue, namespace):
    name = await queue(gpus=6, limit=6)
    parts = [{"name": each, "minMember": 2} for each in ("a", "b", "c")]
    group = a_group("parts", namespace, name, minSubGroup=2, subGroups=parts, priorityClassName="train")
    pods = [pod for part in parts for pod in members("parts", namespace, name, part["name"], 2, gpus=1)]
    await cluster.apply(as_yaml(group, *pods))
    await cluster.running(namespace, count=6)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    left = await cluster.running(namespace, count=5)
    assert len({pod.labels.get(names.SUBGROUP_LABEL) for pod in left} - {None}) == 2


# --- other resources ------------------------------------------------------------------------------
def with_widgets(pod, count):
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {EXTENDED: str(count)}
    return pod


@pytest.fixture
async def widgets(node):
    """Spec of pods that go to a pair of nodes with two widgets each."""
    label = f"e2e.example.com/{uuid.uuid4().hex[:8]}"
    for _ in range(2):
        await node(NodeShape(gpus=0, resources={EXTENDED: "2"}, labels={label: "yes"}))
    return {"nodeSelector": {label: "yes"}}


async def test_a_resource_that_is_no_gpu_is_taken_too(cluster, queue, widgets, namespace):
    name = await queue()
    low = [with_widgets(a_pod(f"low-{i}", namespace, name, spec=widgets), 1) for i in range(4)]
    await cluster.apply(as_yaml(*low))
    await cluster.running(namespace, "low", count=4)
    urgent = a_pod("urgent", namespace, name, labels=labels("build"), spec=widgets)
    await cluster.apply(as_yaml(with_widgets(urgent, 1)))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=3)


async def test_a_gang_takes_it_on_several_nodes(cluster, queue, widgets, namespace):
    name = await queue()
    low = [with_widgets(a_pod(f"low-{i}", namespace, name, spec=widgets), 2) for i in range(2)]
    await cluster.apply(as_yaml(*low))
    await cluster.running(namespace, "low", count=2)
    gang = a_job("urgent", namespace, name, pods=2, gang=2, priority="build", spec=widgets)
    with_widgets(gang["spec"]["template"], 2)
    await cluster.apply(as_yaml(gang))
    pods = await cluster.running(namespace, "urgent", count=2)
    assert len({pod.spec.node_name for pod in pods}) == 2
    assert not await cluster.pods(namespace, "low")


async def test_claimed_devices_are_taken(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(2)
    await cluster.apply(as_yaml(found.template(namespace)))
    await cluster.apply(as_yaml(*(found.a_pod(f"low-{i}", namespace, name) for i in range(2))))
    await cluster.running(namespace, "low", count=2)
    await cluster.apply(as_yaml(found.a_pod("urgent", namespace, name, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=1)


async def test_a_gang_takes_claimed_devices_of_several_nodes(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1, 1)
    await cluster.apply(as_yaml(found.template(namespace)))
    await cluster.apply(as_yaml(*(found.a_pod(f"low-{i}", namespace, name) for i in range(2))))
    await cluster.running(namespace, "low", count=2)
    group = a_group("urgent", namespace, name, minMember=2, priorityClassName="build")
    pods = [
        found.a_pod(f"urgent-{i}", namespace, name, annotations={names.POD_GROUP_ANNOTATION: "urgent"})
        for i in range(2)
    ]
    await cluster.apply(as_yaml(group, *pods))
    await cluster.running(namespace, "urgent", count=2)
    assert not await cluster.pods(namespace, "low")


async def test_a_place_among_the_pods_of_a_node_is_taken(cluster, queue, node, namespace):
    name = await queue()
    there = on(await node(NodeShape(gpus=1, resources={"pods": "3"})))
    await cluster.apply(as_yaml(*(a_pod(f"low-{i}", namespace, name, spec=there) for i in range(3))))
    await cluster.running(namespace, "low", count=3)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, labels=labels("build"), spec=there)))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.running(namespace, "low", count=2)


async def test_a_part_of_a_device_needs_a_place_for_its_reservation_too(cluster, queue, node, namespace):
    name = await queue()
    there = on(await node(NodeShape(gpus=1, resources={"pods": "3"})))
    await cluster.apply(as_yaml(*(a_pod(f"low-{i}", namespace, name, spec=there) for i in range(2))))
    await cluster.running(namespace, "low", count=2)
    part = a_pod("part", namespace, name, annotations={"gpu-fraction": "0.5"}, spec=there)
    await cluster.apply(as_yaml(part))
    await cluster.waits(namespace, "part", saying="pod number exceeded")
    await cluster.running(namespace, "low", count=2)


# --- who is protected, and for how long -----------------------------------------------------------
async def test_work_that_is_to_wait_a_while_takes_nobodys_place_before(cluster, queue, namespace):
    name = await queue(gpus=2, limit=2)
    await cluster.apply(as_yaml(a_pod("low", namespace, name, gpus=2)))
    await cluster.running(namespace, "low", count=1)
    delay = {"kai.scheduler/preemption-delay": "1h"}
    await cluster.apply(
        as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=labels("build"), annotations=delay))
    )
    await cluster.waits(namespace, "urgent", reason="PreemptionDelayNotElapsed")
    await cluster.running(namespace, "low", count=1)

    [waiting] = await cluster.pods(namespace, "urgent")
    group = waiting.annotations[names.POD_GROUP_ANNOTATION]
    shorter = {"spec": {"preemptionDelay": "1s"}}
    await cluster.client.patch(POD_GROUPS, group, shorter, namespace=namespace, kind=PatchKind.MERGE)
    await cluster.running(namespace, "urgent", count=1)
    assert not await cluster.pods(namespace, "low")


async def test_work_that_is_to_wait_a_while_takes_what_is_free(cluster, queue, namespace):
    delay = {"kai.scheduler/preemption-delay": "1h"}
    await cluster.apply(as_yaml(a_pod("urgent", namespace, await queue(), gpus=1, annotations=delay)))
    await cluster.running(namespace, "urgent", count=1)


async def test_work_is_safe_for_the_least_time_of_its_queue(cluster, queue, namespace):
    parent = await queue(preemptMinRuntime="1h")
    name = await queue(parent=parent, gpus=1, limit=1)
    await cluster.apply(as_yaml(a_pod("low", namespace, name, gpus=1)))
    await cluster.running(namespace, "low", count=1)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=labels("build"))))
    await cluster.waits(
        namespace, "urgent", reason="MinRuntimeNotElapsed", saying="protected by minimum runtime"
    )
    await cluster.running(namespace, "low", count=1)

    await cluster.change_queue(name, preemptMinRuntime="0s")
    await cluster.running(namespace, "urgent", count=1)
    assert not await cluster.pods(namespace, "low")


async def test_what_is_beyond_the_minimum_of_a_job_is_not_safe(cluster, queue, namespace):
    name = await queue(gpus=3, limit=3, preemptMinRuntime="1h")
    await cluster.apply(as_yaml(a_job("elastic", namespace, name, pods=3, gang=2, gpus=1)))
    await cluster.running(namespace, "elastic", count=3)
    await cluster.apply(as_yaml(a_pod("urgent", namespace, name, gpus=1, labels=labels("build"))))
    await cluster.running(namespace, "urgent", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=1, labels=labels("build"))))
    await cluster.waits(namespace, "second")
    await cluster.running(namespace, "elastic", count=2)
