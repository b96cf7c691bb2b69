"""Devices that another scheduler has reserved: its reservation pods have other names, and no claims."""

import pytest

from kai.kube.resources import PODS
from kai.model import names
from kai.model.claims import Grant

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("devices")]
NODE, GROUP = "n1", "8f14e45f-ceea-467f-a1d2-91cbb3a1a1aa"
#: Made of node and chance, as releases of the original before the deterministic names have it.
NAME = f"gpu-reservation-{NODE}-x7f2q"


async def a_reservation(cluster, *, name=NAME, group=GROUP, device="GPU-of-old"):
    body = {
        "metadata": {
            "name": name,
            "labels": {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: group},
            "annotations": {names.RESERVED_GPU: device, "karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            "nodeName": NODE,
            "serviceAccountName": names.RESERVATION_SERVICE_ACCOUNT,
            "containers": [
                {
                    "name": "resource-reservation",
                    "image": "registry.example.com/kai/resourcereservation:v0.12.0",
                    "resources": {"limits": {names.NVIDIA_GPU: "1"}, "requests": {names.NVIDIA_GPU: "1"}},
                }
            ],
        },
    }
    made = await cluster.client.create(PODS, body, namespace=names.RESERVATION_NAMESPACE)
    await cluster.phase(name, "Running", namespace=names.RESERVATION_NAMESPACE)
    return made


async def a_consumer(cluster, name, *, fraction=0.4, group=GROUP):
    """A pod that runs on a part of the device, as another binder left it."""
    await cluster.pod(name, fraction=fraction, nodeName=NODE)
    change = {
        "labels": {names.GPU_GROUP_LABEL: group},
        "annotations": {names.RECEIVED_RESOURCE_TYPE: "Fraction"},
    }
    await cluster.client.patch(PODS, name, {"metadata": change}, namespace="default")
    await cluster.phase(name, "Running")
    return await cluster.get(name)


async def test_what_runs_on_them_goes_on_and_is_recorded(cluster):
    await cluster.node(NODE, gpus=2)
    reservation = await a_reservation(cluster)
    before = [await a_consumer(cluster, name) for name in ("a", "b")]
    async with cluster.scheduler(), cluster.binder():
        wanted = {"default/a": Grant(1, portion_centi=40), "default/b": Grant(1, portion_centi=40)}

        async def done():
            return await cluster.grants() == wanted

        await cluster.until(done)
    assert [await cluster.get(name) for name in ("a", "b")] == before
    (there,) = await cluster.reservations()
    assert there["metadata"]["uid"] == reservation["metadata"]["uid"]


async def test_who_comes_later_joins_the_device_and_the_last_one_frees_it(cluster):
    await cluster.node(NODE, gpus=1)
    await a_reservation(cluster)
    await a_consumer(cluster, "before", fraction=0.4)
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("after", fraction=0.5)
        assert await cluster.bound("after") == [NODE]
        data = (await cluster.config_map("after-abcdefg-shared-gpu-0"))["data"]
        assert data["NVIDIA_VISIBLE_DEVICES"] == "GPU-of-old"
        assert len(await cluster.reservations()) == 1
        await cluster.phase("after", "Running")
        for name in ("before", "after"):
            await cluster.client.delete(PODS, name, namespace="default", grace_seconds=0)

        async def freed():
            return not await cluster.reservations()

        await cluster.until(freed)


async def test_of_two_reservations_of_one_group_none_is_taken_from_who_runs_there(cluster):
    """Releases that named them by chance could make two at once; which one a pod sees nobody wrote down."""
    await cluster.node(NODE, gpus=2)
    for name, device in ((NAME, "GPU-1"), (f"gpu-reservation-{NODE}-aaaaa", "GPU-2")):
        await a_reservation(cluster, name=name, device=device)
    before = await a_consumer(cluster, "a")
    async with cluster.scheduler(), cluster.binder():

        async def done():
            return await cluster.grants()

        await cluster.until(done)
        assert len(await cluster.reservations()) == 2
        assert await cluster.get("a") == before
        await cluster.client.delete(PODS, "a", namespace="default", grace_seconds=0)

        async def freed():
            return not await cluster.reservations()

        await cluster.until(freed)
