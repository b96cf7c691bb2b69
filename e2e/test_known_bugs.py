"""What befell users on live clusters, and must not here; numbers are those of the issues of the original."""

import uuid

import pytest

from e2e.manifests import a_group, a_pod, as_yaml, members
from kai.kube.resources import POD_GROUPS, PODS
from kai.model import names
from kai.model.objects import Pod, PodGroup


@pytest.fixture
async def other_namespace(cluster):
    """A second namespace of the test's own."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.apply(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    yield name
    await cluster.end_namespace(name)


def with_cpu(pod: dict, amount: str) -> dict:
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = amount
    return pod


async def test_1888_what_runs_no_longer_says_that_it_cannot_be_scheduled(cluster, queue, namespace):
    name = await queue()
    await cluster.change_queue(name, resources={"cpu": {"quota": 500, "limit": 500}})
    await cluster.apply(as_yaml(with_cpu(a_pod("a", namespace, name), "400m")))
    await cluster.running(namespace, "a", count=1)
    await cluster.apply(as_yaml(with_cpu(a_pod("b", namespace, name), "400m")))
    await cluster.waits(namespace, "b", reason="OverLimit")
    await cluster.delete("v1", "Pod", "a", namespace=namespace)
    [pod] = await cluster.running(namespace, "b", count=1)

    async def conditions() -> list[str]:
        group = await cluster.client.get(
            POD_GROUPS, pod.annotations[names.POD_GROUP_ANNOTATION], namespace=namespace, type=PodGroup
        )
        told = (group.status and group.status.scheduling_conditions) or []
        now = await cluster.client.get(PODS, "b", namespace=namespace, type=Pod)
        of_pod = [each for each in now.status.conditions or () if each.status == "False"]
        return [each.message for each in (*told, *of_pod)]

    await cluster.eventually(
        conditions, lambda found: not found, what="neither group nor pod says that it waits"
    )


async def test_2095_groups_of_the_same_name_in_two_namespaces_have_a_status_of_their_own(
    cluster, queue, namespace, other_namespace
):
    name = await queue()
    for where, count in ((namespace, 2), (other_namespace, 1)):
        await cluster.apply(as_yaml(a_group("shared", where, name, minMember=2)))
        await cluster.apply(as_yaml(*members("shared", where, name, "", count, gpus=1)))
    await cluster.running(namespace, count=2)

    async def allocated() -> list[str]:
        found = []
        for where in (namespace, other_namespace):
            group = await cluster.client.get(POD_GROUPS, "shared", namespace=where)
            status = group.get("status", {}).get("resourcesStatus", {})
            found.append(status.get("allocated", {}).get(names.NVIDIA_GPU, "0"))
        return found

    await cluster.eventually(allocated, lambda found: found == ["2", "0"], what="only one of them holds GPUs")
    assert not [pod for pod in await cluster.pods(other_namespace) if pod.spec.node_name]
    await cluster.apply(as_yaml(*members("shared", other_namespace, name, "", 2, gpus=1)[1:]))
    await cluster.running(other_namespace, count=2)
    await cluster.eventually(allocated, lambda found: found == ["2", "2"], what="both of them hold GPUs")


async def test_2096_a_part_that_cannot_form_keeps_neither_its_group_nor_a_place(cluster, queue, namespace):
    name = await queue()
    parts = [{"name": "filler", "minMember": 1}, {"name": "starved", "minMember": 2}]
    await cluster.apply(as_yaml(a_group("job", namespace, name, minSubGroup=1, subGroups=parts)))
    await cluster.apply(as_yaml(*members("job", namespace, name, "starved", 1)))
    await cluster.apply(as_yaml(*members("job", namespace, name, "filler", 1)))
    await cluster.running(namespace, "filler", count=1)
    [starved] = await cluster.pods(namespace, "starved")
    assert not starved.spec.node_name
    await cluster.apply(as_yaml(*members("job", namespace, name, "starved", 2)[1:]))
    await cluster.running(namespace, count=3)
