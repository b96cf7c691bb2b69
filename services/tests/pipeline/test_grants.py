"""What a bound pod holds of a shared device is on record where its owner cannot write."""

import pytest

from kai.kube import errors
from kai.kube.resources import PODS
from kai.model import names
from kai.model.claims import Grant
from kai_binder.reservation_pods import reservation_name

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("devices")]
MOST = Grant(1, portion_centi=90)
REWRITES = {
    "less": {"annotations": {names.GPU_FRACTION: "0.01"}},
    "none": {"annotations": {names.GPU_FRACTION: None}},
    "elsewhere": {"labels": {names.GPU_GROUP_LABEL: "elsewhere"}},
    "nowhere": {"labels": {names.GPU_GROUP_LABEL: None}, "annotations": {names.GPU_FRACTION: None}},
}


def group_of(pod):
    return pod["metadata"]["labels"][names.GPU_GROUP_LABEL]


async def rewrite(cluster, name, change):
    await cluster.client.patch(PODS, name, {"metadata": change}, namespace="default")


async def stays_pending(cluster, name):
    """Until a scheduler has looked at it and said that it does not fit."""

    async def refused():
        pod = await cluster.get(name)
        assert "nodeName" not in pod["spec"], f"{name} was bound"
        conditions = pod["status"].get("conditions", [])
        return [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]

    return await cluster.until(refused)


async def test_what_was_decided_is_recorded_before_the_bind_at_no_more_requests(cluster):
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("first", fraction=0.5)
        await cluster.bound("first")
        before = cluster.requests("binder", "patch", "pods")
        await cluster.pod("second", fraction=0.25)
        await cluster.bound("second")
        # The claim, as ever, and the label of the group.
        assert cluster.requests("binder", "patch", "pods") - before == 2
    assert await cluster.grants() == {
        "default/first": Grant(1, portion_centi=50),
        "default/second": Grant(1, portion_centi=25),
    }


async def test_a_pod_that_asks_for_memory_is_recorded_with_it(cluster):
    await cluster.node("n1", gpus=2)
    async with cluster.scheduler(), cluster.binder():
        spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "main", "image": "x"}]}
        annotations = {
            names.POD_GROUP_ANNOTATION: "pg",
            names.GPU_MEMORY: "1000",
            names.GPU_FRACTION_NUM_DEVICES: "2",
            names.SHARED_GPU_CONFIGMAP: "p-abcdefg-shared-gpu",
        }
        await cluster.group("pg")
        body = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
        await cluster.client.create(PODS, body, namespace="default")
        await cluster.bound("p")
    assert await cluster.grants() == {"default/p": Grant(2, memory_mib=1000)}
    assert len(await cluster.reservations()) == 2


@pytest.mark.parametrize("change", REWRITES.values(), ids=REWRITES)
async def test_what_a_pod_holds_is_not_given_away_whatever_its_owner_writes_on_it(cluster, change):
    """Without any webhook, and also by a scheduler and a binder that have not seen how it was before."""
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("held", fraction=0.9)
        await cluster.bound("held")
        await cluster.phase("held", "Running")
        await rewrite(cluster, "held", change)
        async with cluster.podgroup_controller():
            await cluster.pod("greedy", fraction=0.9)
            await stays_pending(cluster, "greedy")
    async with cluster.scheduler(), cluster.binder(), cluster.podgroup_controller():
        await cluster.pod("later", fraction=0.9)
        await stays_pending(cluster, "later")
        assert len(await cluster.reservations()) == 1
        assert "deletionTimestamp" not in (await cluster.get("held"))["metadata"]

        async def told():
            return [e for e in await cluster.events("NotAsGranted") if e["regarding"]["name"] == "held"]

        assert "it was granted 0.9 of a GPU" in (await cluster.until(told))[0]["note"]
        await cluster.client.delete(PODS, "held", namespace="default", grace_seconds=0)
        (where,) = {
            tuple(await cluster.bound(name)) for name in await first_bound(cluster, "greedy", "later")
        }
        assert where == ("n1",)


async def first_bound(cluster, *pods):
    async def some():
        return [name for name in pods if (await cluster.get(name))["spec"].get("nodeName")]

    return await cluster.until(some)


async def test_the_reservation_of_a_pod_without_its_label_goes_with_the_pod(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p", fraction=0.5)
        await cluster.bound("p")
        await rewrite(cluster, "p", REWRITES["nowhere"])
        await cluster.client.delete(PODS, "p", namespace="default", grace_seconds=0)

        async def none_left():
            return not await cluster.reservations()

        await cluster.until(none_left)


async def test_a_consumer_without_its_label_goes_with_a_reservation_that_ends(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("p", fraction=0.5)
        await cluster.bound("p")
        await cluster.phase("p", "Running")
        await rewrite(cluster, "p", REWRITES["nowhere"])
        (reservation,) = await cluster.reservations()
        name = reservation["metadata"]["name"]
        await cluster.client.delete(PODS, name, namespace=names.RESERVATION_NAMESPACE, grace_seconds=0)

        async def going():
            try:
                return "deletionTimestamp" in (await cluster.get("p"))["metadata"]
            except errors.NotFound:
                return True

        await cluster.until(going)


async def test_a_consumer_that_another_binder_bound_is_recorded_and_its_first_word_counts(cluster):
    """As on a cluster that is taken over while pods run: its reservation pods say nothing of anybody."""
    await cluster.node("n1", gpus=1)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("held", fraction=0.9)
        await cluster.bound("held")
        await cluster.phase("held", "Running")
    group = group_of(await cluster.get("held"))
    name = reservation_name("n1", group)
    (reservation,) = await cluster.reservations()
    claims = {key: None for key in reservation["metadata"]["annotations"] if key.startswith("claim.")}
    patch = {"metadata": {"annotations": claims}}
    await cluster.client.patch(PODS, name, patch, namespace=names.RESERVATION_NAMESPACE)
    assert await cluster.grants() == {}
    async with cluster.scheduler(), cluster.podgroup_controller():
        async with cluster.binder(), cluster.binder():

            async def written():
                return await cluster.grants()

            assert await cluster.until(written) == {"default/held": MOST}
        await rewrite(cluster, "held", REWRITES["less"])
        async with cluster.binder():
            await cluster.pod("greedy", fraction=0.9)
            await stays_pending(cluster, "greedy")
    assert await cluster.grants() == {"default/held": MOST}


async def test_a_decision_counts_though_the_pod_says_less_by_the_time_it_is_bound(cluster):
    """Until a pod is bound it may be changed: who does so in between holds what was decided."""
    await cluster.node("n1", gpus=1)
    cluster.fault(verb="create", resource="pods", user_agent="kai-binder", delay=1.0)
    async with cluster.scheduler(), cluster.binder(), cluster.podgroup_controller():
        await cluster.pod("quick", fraction=0.9)

        async def begun():
            return cluster.requests("binder", "patch", "pods")

        await cluster.until(begun)
        await rewrite(cluster, "quick", REWRITES["less"])
        await cluster.bound("quick")
        assert await cluster.grants() == {"default/quick": MOST}
        await cluster.pod("greedy", fraction=0.9)
        await stays_pending(cluster, "greedy")
