"""All simulated nodes of an embedded cluster, against its API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.reflector import Removed, Upserted
from kai.kube.resources import PODS
from kai.model import names
from kai.model.objects import Json
from kai_local.apiserver.serving.server import ApiServer
from kai_local.kubelet.kubelet import Kubelets
from kai_local.kubelet.nodes import NodeShape
from kai_local.parts.watches import Watches


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with ApiServer() as server, KubeClient.connect(str(_kubeconfig(server, tmp_path))) as client:
        yield client


def _kubeconfig(server: ApiServer, folder: Path) -> Path:
    return server.write_kubeconfig(folder / "config")


@asynccontextmanager
async def kubelets(client: KubeClient, clock: Clock | None = None) -> AsyncIterator[Watches]:
    """One simulated node, until the body ends."""
    watches = Watches(client)
    nodes = Kubelets(client, watches, count=1, shape=NodeShape(), clock=clock or Clock())
    running = [asyncio.create_task(part.run()) for part in (watches, nodes)]
    try:
        async with within("the nodes are up"):
            await nodes.ready.wait()
        yield watches
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


async def a_pod(
    client: KubeClient, node: str, name: str = "p", *, gpus: int = 0, **metadata: list[str]
) -> None:
    resources = {"limits": {names.NVIDIA_GPU: str(gpus)}} if gpus else {}
    body: Json = {
        "metadata": {"name": name, **metadata},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "i", "resources": resources}],
        },
    }
    await client.create(PODS, body, namespace="default")


async def phase(client: KubeClient, name: str = "p") -> str:
    """The phase of the pod, or that it is gone."""
    try:
        pod = await client.get(PODS, name, namespace="default")
    except NotFound:
        return "gone"
    return str(pod.get("status", {}).get("phase"))


async def devices(client: KubeClient, name: str) -> list[str]:
    """The devices that the pod has."""
    pod = await client.get(PODS, name, namespace="default")
    [container] = pod["status"]["containerStatuses"]
    return [
        each["resourceID"] for entry in container["allocatedResourcesStatus"] for each in entry["resources"]
    ]


async def test_a_deleted_pod_goes_though_its_node_never_was(client: KubeClient) -> None:
    await a_pod(client, "no-such-node")
    async with kubelets(client):
        await client.delete(PODS, "p", namespace="default")
        await eventually(lambda: phase(client), lambda seen: seen == "gone")


async def test_a_deleted_pod_without_a_node_that_is_held_is_seen_to_have_ended(client: KubeClient) -> None:
    await a_pod(client, "no-such-node", finalizers=["example.com/wait"])
    async with kubelets(client):
        await client.delete(PODS, "p", namespace="default")
        await eventually(lambda: phase(client), lambda seen: seen == "Failed")
        await client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace="default")
        await eventually(lambda: phase(client), lambda seen: seen == "gone")


async def test_a_pod_whose_node_stays_away_goes_after_a_while(client: KubeClient) -> None:
    await a_pod(client, "no-such-node")
    clock = Clock()
    async with kubelets(client, clock):
        await a_pod(client, "node-0", name="other")
        await eventually(lambda: phase(client, "other"), lambda seen: seen == "Running")
        assert await phase(client) == "Pending"
        clock.now += 40
        await client.patch(PODS, "p", {"metadata": {"labels": {"seen": "again"}}}, namespace="default")
        await eventually(lambda: phase(client), lambda seen: seen == "gone")


async def test_a_node_that_is_away_for_a_moment_gives_no_device_twice(client: KubeClient) -> None:
    async with kubelets(client) as watches:
        await a_pod(client, "node-0", gpus=1)
        await eventually(lambda: phase(client), lambda seen: seen == "Running")
        node = watches.nodes.get("node-0")
        assert node is not None
        # Its end and its return are told in one go, as by a watch that was broken meanwhile.
        watches.nodes(Removed("node-0", node.metadata.uid, node))
        watches.nodes(Upserted(node, False))
        await a_pod(client, "node-0", name="next", gpus=1)
        await eventually(lambda: phase(client, "next"), lambda seen: seen == "Running")
        held = {name: await devices(client, name) for name in ("p", "next")}
        assert len(held["p"]) == len(held["next"]) == 1
        assert held["p"] != held["next"]


@pytest.mark.parametrize("address", ["fd00::1", "none", "192.0.2.1"])
async def test_an_address_that_somebody_else_gave_to_a_pod_keeps_no_node_from_coming_up(
    client: KubeClient, address: str
) -> None:
    await a_pod(client, "node-0")
    status = {"status": {"podIP": address, "phase": "Running"}}
    await client.patch(PODS, "p", status, namespace="default", subresource="status")
    async with kubelets(client):
        await a_pod(client, "node-0", name="next")
        await eventually(lambda: phase(client, "next"), lambda seen: seen == "Running")
    pod = await client.get(PODS, "next", namespace="default")
    assert pod["status"]["podIP"].startswith("10.244.0.")
