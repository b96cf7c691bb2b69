"""Nodes that are Ready and do not run what they are given."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from kai.kube import errors
from kai.kube.client import PatchKind
from kai.kube.resources import NAMESPACES, PODS
from kai.model import names

pytestmark = pytest.mark.integration

REFUSED = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod Allocate failed due to requested number of devices unavailable, which is unexpected",
}


@asynccontextmanager
async def kubelets(cluster, *, broken, refusal=REFUSED):
    """Pods of one node are refused, those of all others run; gives the names of those that were refused."""
    refused = []

    async def play():
        while True:
            for pod in await cluster.client.list(PODS):
                meta, node = pod["metadata"], pod["spec"].get("nodeName")
                if not node or pod["status"].get("phase", "Pending") != "Pending":
                    continue
                status = refusal if node == broken else {"phase": "Running"}
                try:
                    await cluster.client.patch(
                        PODS, meta["name"], {"status": status}, namespace=meta["namespace"],
                        subresource="status", kind=PatchKind.MERGE,
                    )  # fmt: skip
                except errors.NotFound:
                    continue
                if node == broken:
                    refused.append(meta["name"])
            await asyncio.sleep(0.02)

    playing = asyncio.create_task(play())
    try:
        yield refused
    finally:
        playing.cancel()
        await asyncio.wait([playing])


async def replaced_until_one_runs(cluster, name, *, namespace="default", attempts=200, **pod):
    """A pod that its controller replaces each time that it fails; the name of the one that runs."""
    for attempt in range(attempts):
        current = f"{name}-{attempt}"
        await cluster.pod(current, namespace=namespace, **pod)

        async def over(current=current):
            phase = (await cluster.get(current, namespace=namespace))["status"].get("phase")
            return phase if phase in ("Running", "Failed") else None

        if await cluster.until(over) == "Running":
            return current
    raise AssertionError(f"{attempts} pods were refused, and none runs")


async def test_a_ready_node_with_a_broken_device_does_not_swallow_pods(cluster):
    await cluster.node("a-broken", gpus=1)  # binpack prefers it
    await cluster.node("b-sound", gpus=8)
    async with cluster.scheduler(), cluster.binder(), kubelets(cluster, broken="a-broken") as refused:
        for i in range(4):
            running = await replaced_until_one_runs(cluster, f"job-{i}")
            assert (await cluster.get(running))["spec"]["nodeName"] == "b-sound"
        assert len(refused) <= 4


async def test_who_is_refused_closes_no_node_to_others(cluster):
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await cluster.node("a-broken", gpus=1)
    await cluster.node("b-sound", gpus=8)
    async with cluster.scheduler(), cluster.binder():
        async with kubelets(cluster, broken="a-broken"):
            await replaced_until_one_runs(cluster, "job")
        async with kubelets(cluster, broken=""):
            running = await replaced_until_one_runs(cluster, "job", namespace="other")
        assert (await cluster.get(running, namespace="other"))["spec"]["nodeName"] == "a-broken"


async def others(cluster):
    """Whether a pod of a namespace that nobody refused anything gets a place on the first node."""
    async with kubelets(cluster, broken=""):
        running = await replaced_until_one_runs(cluster, "job", namespace="other", gpus=1)
    return (await cluster.get(running, namespace="other"))["spec"]["nodeName"] == "a-broken"


@pytest.mark.parametrize("refusal", [REFUSED, REFUSED | {"reason": "SysctlForbidden"}], ids=["node", "own"])
async def test_what_several_namespaces_are_refused_closes_a_node_to_all_unless_it_is_their_fault(
    cluster, refusal
):
    for namespace in ("one", "two", "other"):
        await cluster.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await cluster.node("a-broken", gpus=1)
    await cluster.node("b-sound", gpus=8)
    async with cluster.scheduler(), cluster.binder():
        async with kubelets(cluster, broken="a-broken", refusal=refusal):
            for namespace in ("one", "two"):
                await replaced_until_one_runs(cluster, "job", namespace=namespace)
        assert await others(cluster) is (refusal is not REFUSED)


async def test_pods_that_were_put_on_a_node_by_their_owner_close_it_to_nobody(cluster):
    for namespace in ("one", "two", "other"):
        await cluster.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await cluster.node("a-broken", gpus=1)
    await cluster.node("b-sound", gpus=8)
    async with cluster.scheduler(), cluster.binder():
        async with kubelets(cluster, broken="a-broken") as refused:
            for namespace in ("one", "two"):
                for number in range(4):
                    await cluster.pod(f"put-{number}", namespace=namespace, nodeName="a-broken")

            async def all_refused():
                return len(refused) >= 8

            await cluster.until(all_refused)
        assert await others(cluster)


async def test_a_pod_with_a_part_of_a_gpu_leaves_a_node_whose_device_cannot_be_reserved(cluster):
    await cluster.node("a-broken", gpus=1)
    await cluster.node("b-sound", gpus=8)
    told = {names.RESERVED_GPU: "GPU-1"}

    async def reserve():
        while True:
            for pod in await cluster.reservations():
                meta = pod["metadata"]
                if pod["spec"]["nodeName"] != "a-broken" and names.RESERVED_GPU not in meta["annotations"]:
                    patch = {"metadata": {"annotations": told}}
                    await cluster.client.patch(PODS, meta["name"], patch, namespace=meta["namespace"])
            await asyncio.sleep(0.02)

    reserving = asyncio.create_task(reserve())
    try:
        async with cluster.scheduler(), cluster.binder(), kubelets(cluster, broken="a-broken"):
            await cluster.pod("shared", fraction=0.5)
            assert await cluster.bound("shared") == ["b-sound"]
    finally:
        reserving.cancel()
        await asyncio.wait([reserving])
