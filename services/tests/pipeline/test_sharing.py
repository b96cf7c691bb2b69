"""Parts of GPUs: reservation pods, labels and ConfigMaps, from the first consumer to the last."""

import json

import pytest

from kai.kube import errors
from kai.kube.resources import CONFIG_MAPS, PODS
from kai.model import names
from kai_binder.reservation_pods import reservation_name

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("devices")]


async def test_a_fraction_is_told_its_device_and_its_part(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("demo", fraction=0.5)
        assert await cluster.bound("demo") == ["n1"]
    pod = await cluster.get("demo")
    group = pod["metadata"]["labels"][names.GPU_GROUP_LABEL]
    assert pod["metadata"]["annotations"][names.RECEIVED_RESOURCE_TYPE] == "Fraction"
    (reservation,) = await cluster.reservations()
    assert reservation["metadata"]["name"] == reservation_name("n1", group)
    assert reservation["metadata"]["labels"] == {
        names.APP_LABEL: names.RESERVATION_APP,
        names.GPU_GROUP_LABEL: group,
    }
    assert reservation["spec"]["nodeName"] == "n1"
    assert reservation["spec"]["containers"][0]["resources"]["limits"] == {names.NVIDIA_GPU: "1"}
    capabilities = await cluster.config_map("demo-abcdefg-shared-gpu-0")
    assert capabilities["data"] == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-n1-1",
        "GPU_PORTION": "0.50",
        "RUNAI_NUM_OF_GPUS": "0.50",
    }
    assert capabilities["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    environment = await cluster.config_map("demo-abcdefg-shared-gpu-0-evar")
    assert environment.get("data", {}) == {}


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        ({names.GPU_MEMORY: "4096"}, "4096m"),
        ({names.GPU_FRACTION: "0.05"}, "4077m"),
    ],
)
async def test_hami_core_is_told_no_more_memory_than_the_pod_was_given(cluster, asked, limit):
    """A pod that asks for MiB is charged hundredths, rounded up; its limit is what it asked for."""
    await cluster.node("n1", labels={names.GPU_MEMORY_LABEL: "81559"})
    async with cluster.scheduler(), cluster.binder(plugins=json.dumps({"hamicore": {"enabled": True}})):
        await cluster.group("pg")
        said = {
            names.POD_GROUP_ANNOTATION: "pg",
            names.SHARED_GPU_CONFIGMAP: "p-abcdefg-shared-gpu",
        }
        body = {
            "metadata": {"name": "p", "annotations": said | asked},
            "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "main", "image": "x"}]},
        }
        await cluster.client.create(PODS, body, namespace="default")
        await cluster.bound("p")
    capabilities = await cluster.config_map("p-abcdefg-shared-gpu-0")
    assert capabilities["data"][names.CUDA_DEVICE_MEMORY_LIMIT] == limit


async def test_two_fractions_that_fit_share_one_device_and_a_third_gets_another(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("a", fraction=0.7)
        await cluster.bound("a")
        await cluster.pod("b", fraction=0.2)
        await cluster.bound("b")
        await cluster.pod("c", fraction=0.5)
        await cluster.bound("c")
    groups = [(await cluster.get(name))["metadata"]["labels"][names.GPU_GROUP_LABEL] for name in "abc"]
    assert groups[0] == groups[1] != groups[2]
    assert len(await cluster.reservations()) == 2


async def test_several_devices_for_one_pod(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("wide", fraction=0.5, devices=2)
        await cluster.bound("wide")
    labels = (await cluster.get("wide"))["metadata"]["labels"]
    groups = [value for key, value in labels.items() if key.startswith(names.MULTI_GPU_GROUP_PREFIX)]
    assert len(groups) == 2
    assert names.GPU_GROUP_LABEL not in labels
    data = (await cluster.config_map("wide-abcdefg-shared-gpu-0"))["data"]
    assert sorted(data["NVIDIA_VISIBLE_DEVICES"].split(",")) == ["GPU-n1-1", "GPU-n1-2"]


@pytest.mark.parametrize("devices_wanted", [1, 2])
async def test_the_reservation_goes_with_its_last_consumer(cluster, devices_wanted):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("a", fraction=0.3, devices=devices_wanted)
        await cluster.bound("a")
        await cluster.pod("b", fraction=0.3, devices=devices_wanted)
        await cluster.bound("b")
        assert len(await cluster.reservations()) == devices_wanted
        await cluster.phase("a", "Running")
        await cluster.phase("b", "Running")
        await cluster.phase("a", "Succeeded")
        await cluster.client.delete(PODS, "b", namespace="default", grace_seconds=0)

        async def none_left():
            return not await cluster.reservations()

        await cluster.until(none_left)


async def test_what_ended_while_no_binder_ran_is_freed_when_one_starts(cluster):
    await cluster.node("n1")
    async with cluster.scheduler():
        async with cluster.binder():
            await cluster.pod("a", fraction=0.3)
            await cluster.bound("a")
        await cluster.client.delete(PODS, "a", namespace="default", grace_seconds=0)
        assert len(await cluster.reservations()) == 1
        async with cluster.binder():

            async def none_left():
                return not await cluster.reservations()

            await cluster.until(none_left)


async def test_a_pod_that_runs_on_a_device_that_nobody_holds_is_deleted(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("a", fraction=0.3)
        await cluster.bound("a")
        await cluster.phase("a", "Running")
        (reservation,) = await cluster.reservations()
        name = reservation["metadata"]["name"]
        await cluster.client.delete(PODS, name, namespace=names.RESERVATION_NAMESPACE, grace_seconds=0)

        async def going():
            try:
                return "deletionTimestamp" in (await cluster.get("a"))["metadata"]
            except errors.NotFound:
                return True

        await cluster.until(going)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_consumers_of_a_reservation_that_has_ended_go_with_it(cluster, phase):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("a", fraction=0.3)
        await cluster.bound("a")
        await cluster.phase("a", "Running")
        (reservation,) = await cluster.reservations()
        name = reservation["metadata"]["name"]
        # Its program ends with 0 where its device is lost, and is started again after any other end.
        assert reservation["spec"]["restartPolicy"] == "OnFailure"
        await cluster.phase(name, "Running", namespace=names.RESERVATION_NAMESPACE)
        await cluster.phase(name, phase, namespace=names.RESERVATION_NAMESPACE)

        async def both_gone():
            if await cluster.reservations():
                return False
            return all("deletionTimestamp" in pod["metadata"] for pod in await cluster.pods())

        await cluster.until(both_gone)


@pytest.mark.parametrize("runs", [True, False], ids=["it runs", "it starts later"])
async def test_a_pod_whose_device_was_lost_while_no_binder_ran_is_deleted_though_its_group_has_another(
    cluster, runs
):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("a", fraction=0.3)
        await cluster.bound("a")
    if runs:
        await cluster.phase("a", "Running")
    (reservation,) = await cluster.reservations()
    meta = reservation["metadata"]
    await cluster.client.delete(PODS, meta["name"], namespace=meta["namespace"], grace_seconds=0)
    anew = {
        "metadata": {
            "name": meta["name"],
            "labels": meta["labels"],
            "annotations": {names.RESERVED_GPU: "GPU-of-others"},
        },
        "spec": {"nodeName": "n1", "containers": reservation["spec"]["containers"]},
    }
    await cluster.client.create(PODS, anew, namespace=meta["namespace"])
    async with cluster.binder():
        if not runs:
            await cluster.pod("b", fraction=0.3, nodeName="n1")
            await cluster.client.patch(
                PODS, "b", {"metadata": {"labels": meta["labels"]}}, namespace="default"
            )

            async def recorded():
                return set(await cluster.grants())

            assert await cluster.until(recorded) == {"default/b"}
            await cluster.phase("a", "Running")

        async def going():
            try:
                return "deletionTimestamp" in (await cluster.get("a"))["metadata"]
            except errors.NotFound:
                return True

        await cluster.until(going)
        assert "default/a" not in await cluster.grants()


async def test_a_config_map_of_somebody_else_is_not_overwritten(cluster):
    await cluster.node("n1")
    mine = {"metadata": {"name": "demo-abcdefg-shared-gpu-0"}, "data": {"precious": "yes"}}
    await cluster.client.create(CONFIG_MAPS, mine, namespace="default")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("demo", fraction=0.5)

        async def told():
            return await cluster.events("BindingError")

        (event, *_) = await cluster.until(told)
        assert "does not belong to pod demo" in event["note"]

        async def condition():
            conditions = (await cluster.get("demo"))["status"].get("conditions", [])
            return [c for c in conditions if c["type"] == "PodBound" and c["status"] == "False"]

        await cluster.until(condition)
    kept = await cluster.config_map("demo-abcdefg-shared-gpu-0")
    assert kept["data"] == {"precious": "yes"}


async def test_a_gang_of_fractions_is_bound_as_a_whole_or_not_at_all(cluster):
    await cluster.node("n1")
    await cluster.group("gang", min_member=2)
    foreign = {"metadata": {"name": "two-abcdefg-shared-gpu-0"}, "data": {"x": "y"}}
    await cluster.client.create(CONFIG_MAPS, foreign, namespace="default")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("one", group="gang", fraction=0.5)
        await cluster.pod("two", group="gang", fraction=0.5)

        async def failed():
            return {e["regarding"]["name"] for e in await cluster.events("BindingError")} >= {"one", "two"}

        await cluster.until(failed)
        assert "nodeName" not in (await cluster.get("one"))["spec"]
        await cluster.client.delete(CONFIG_MAPS, "two-abcdefg-shared-gpu-0", namespace="default")
        await cluster.bound("one", "two")
