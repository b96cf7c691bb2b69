"""What no cluster has is refused, or told to its owner by field and bound; others are served meanwhile."""

import pytest

from e2e.harness import kai
from e2e.manifests import a_group, a_pod, as_yaml
from kai.kube.errors import ApiError
from kai.kube.resources import EVENTS, PODS
from kai.model.names import TASK_PRIORITY_LABEL
from kai.model.objects import Pod

MOST_INT64 = 2**63 - 1


async def warned(cluster, namespace, kind, *words) -> str:
    """The Warning event on an object of this kind that says all of the words, once there is one."""

    async def notes() -> list[str]:
        return [
            event["note"]
            for event in await cluster.client.list(EVENTS, namespace=namespace)
            if (event["type"], event["reason"]) == ("Warning", "InvalidObject")
            and event["regarding"]["kind"] == kind
            and all(word in event["note"] for word in words)
        ]

    return (await cluster.eventually(notes, bool, what=f"a {kind} is warned of {words}"))[0]


async def somebody_else_runs(cluster, namespace, queue) -> None:
    await cluster.apply(as_yaml(a_pod("somebody-else", namespace, queue)))
    await cluster.running(namespace, "somebody-else", count=1)


async def test_a_claim_of_more_devices_than_there_can_be(cluster, queue, driver, namespace):
    name, found = await queue(), await driver(1)
    await cluster.apply(as_yaml(found.template(namespace, devices=MOST_INT64)))
    await cluster.apply(as_yaml(found.a_pod("greedy", namespace, name, devices=MOST_INT64)))
    bound = ("spec.devices.requests[0].exactly.count", "at most 1024 devices")
    await warned(cluster, namespace, "ResourceClaim", *bound)
    message = await cluster.waits(namespace, "greedy", saying="exactly.count")
    assert all(each in message for each in bound)
    assert "at most 1024" in kai("explain", "pod", "greedy", "-n", namespace, kubeconfig=cluster.kubeconfig)
    await somebody_else_runs(cluster, namespace, name)


async def test_a_pod_of_more_memory_than_there_can_be_is_refused(cluster, queue, namespace):
    pod = a_pod("vast", namespace, await queue())
    pod["spec"]["containers"][0]["resources"]["requests"] = {"memory": str(MOST_INT64)}
    with pytest.raises(ApiError, match=r"resources.requests\[memory\].*at most 9007199254740992"):
        await cluster.apply(as_yaml(pod))


async def test_a_pod_that_is_made_what_nobody_can_take_in_is_told(cluster, queue, namespace):
    name = await queue()
    await cluster.apply(as_yaml(a_pod("vast", namespace, name, gpus=1000)))
    labels = {TASK_PRIORITY_LABEL: "9" * 60}
    await cluster.client.patch(PODS, "vast", {"metadata": {"labels": labels}}, namespace=namespace)
    bound = (f"metadata.labels[{TASK_PRIORITY_LABEL}]", "2147483647")
    note = await warned(cluster, namespace, "Pod", *bound)

    async def look() -> list[tuple[str, str, str]]:
        shown = await cluster.client.get(PODS, "vast", namespace=namespace, type=Pod)
        return [(c.type, c.reason, c.message) for c in shown.status.conditions or ()]

    expected = ("PodScheduled", "InvalidObject", note)
    await cluster.eventually(look, lambda shown: expected in shown, what="the pod shows why it waits")
    said = kai("explain", "pod", "vast", "-n", namespace, kubeconfig=cluster.kubeconfig)
    assert note in said.replace("\n", " ")
    await somebody_else_runs(cluster, namespace, name)


async def test_more_memory_on_more_devices_than_there_can_be_is_refused(cluster, queue, namespace):
    annotations = {"gpu-memory": str(2**64 - 1), "gpu-fraction-num-devices": "1000"}
    with pytest.raises(ApiError, match=r"gpu-memory.*at most 2147483648"):
        await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), annotations=annotations)))


@pytest.mark.parametrize(("levels", "said"), [(1500, "1000"), (17, "at most 16 levels")])
async def test_a_pod_group_deeper_than_anybody_needs_is_refused(cluster, queue, namespace, levels, said):
    parts = [{"name": "s0"}, *({"name": f"s{i}", "parent": f"s{i - 1}"} for i in range(1, levels))]
    parts[-1]["minMember"] = 1
    with pytest.raises(ApiError, match=said):
        await cluster.apply(as_yaml(a_group("deep", namespace, await queue(), subGroups=parts)))
