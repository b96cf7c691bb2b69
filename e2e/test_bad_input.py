"""Bad input gets a clear answer, and nothing is lost."""

import uuid

import pytest

from e2e.manifests import a_pod, a_queue, as_yaml
from kai.kube.errors import ApiError
from kai.kube.resources import POD_GROUPS
from kai.model.objects import PodGroup


async def refusal(cluster, body) -> str:
    with pytest.raises(ApiError) as refused:
        await cluster.apply(as_yaml(body))
    return str(refused.value)


@pytest.mark.parametrize("fraction", ["1.5", "1", "0", "-0.5", "much", "NaN", "0x1p-1"])
async def test_a_fraction_that_is_not_between_0_and_1_is_refused(cluster, namespace, fraction):
    pod = a_pod("p", namespace, "default-queue", annotations={"gpu-fraction": fraction})
    assert "gpu-fraction" in await refusal(cluster, pod)


async def test_a_fraction_beside_a_whole_gpu_is_refused(cluster, namespace):
    pod = a_pod("p", namespace, "default-queue", gpus=1, annotations={"gpu-fraction": "0.5"})
    assert "gpu-fraction" in await refusal(cluster, pod)


async def test_gpu_memory_with_a_unit_is_refused(cluster, namespace):
    pod = a_pod("p", namespace, "default-queue", annotations={"gpu-memory": "8Gi"})
    assert "gpu-memory" in await refusal(cluster, pod)


async def test_a_queue_without_resources_is_refused(cluster):
    queue = a_queue(f"q-{uuid.uuid4().hex[:6]}")
    del queue["spec"]["resources"]
    assert "resources" in await refusal(cluster, queue)


async def test_a_queue_that_is_its_own_ancestor_is_refused(cluster):
    one, two = (f"q-{uuid.uuid4().hex[:6]}" for _ in range(2))
    await cluster.apply(as_yaml(a_queue(one), a_queue(two, parent=one)))
    try:
        assert "parent" in (await refusal(cluster, a_queue(one, parent=two))).lower()
    finally:
        for name in (two, one):
            await cluster.delete("scheduling.run.ai/v2", "Queue", name)


async def test_a_pod_of_an_unknown_queue_waits_and_runs_once_the_queue_exists(cluster, namespace):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    await cluster.apply(as_yaml(a_pod("p", namespace, queue)))
    await reason_of(cluster, namespace, "QueueDoesNotExist")
    await cluster.apply(as_yaml(a_queue(queue)))
    await running(cluster, namespace)
    await cluster.delete("v1", "Pod", "p", namespace=namespace)
    await cluster.delete("scheduling.run.ai/v2", "Queue", queue)


async def test_a_pod_in_a_queue_that_is_not_a_leaf_waits_and_says_so(cluster, namespace):
    parent, child = (f"q-{uuid.uuid4().hex[:6]}" for _ in range(2))
    await cluster.apply(as_yaml(a_queue(parent), a_queue(child, parent=parent)))
    await cluster.apply(as_yaml(a_pod("p", namespace, parent)))
    message = await reason_of(cluster, namespace, "")
    assert parent in message
    assert "leaf" in message
    for name in (child, parent):
        await cluster.delete("scheduling.run.ai/v2", "Queue", name)


async def test_devices_may_be_named_unless_the_administrator_forbids_it(cluster, namespace):
    pod = a_pod("p", namespace, "default-queue")
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    await cluster.apply(as_yaml(pod))
    await running(cluster, namespace)


async def test_a_malformed_preemption_delay_is_ignored_and_the_pod_runs(cluster, namespace):
    annotations = {"kai.scheduler/preemption-delay": "soon"}
    await cluster.apply(as_yaml(a_pod("p", namespace, "default-queue", annotations=annotations)))
    await running(cluster, namespace)


async def running(cluster, namespace):
    await cluster.eventually(
        lambda: cluster.pods(namespace),
        lambda pods: bool(pods) and all(pod.status.phase == "Running" for pod in pods),
        what="the pod runs",
    )


async def reason_of(cluster, namespace, reason) -> str:
    """The message of the group's newest condition, once it has one (with this reason)."""

    def told(groups: list[PodGroup]) -> bool:
        conditions = [c for g in groups for c in ((g.status and g.status.scheduling_conditions) or [])]
        reasons = [item["reason"] for condition in conditions for item in condition.reasons or []]
        return bool(conditions) and (not reason or reason in reasons)

    groups = await cluster.eventually(
        lambda: cluster.client.list(POD_GROUPS, namespace=namespace, type=PodGroup),
        told,
        what=f"the pod group says {reason or 'why it waits'}",
    )
    return groups[0].status.scheduling_conditions[-1].message
