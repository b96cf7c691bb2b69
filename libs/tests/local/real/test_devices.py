"""What stands in for device plugins knows which device each reservation pod was told, whatever comes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai.model.objects import Node
from kai_local.kubelet.nodes import NodeShape, device_id
from kai_local.parts.objects import LocalPod
from kai_local.parts.watches import Watches
from kai_local.real.devices import DeviceManager


class Server:
    """An API server that takes whatever is written, and keeps what pods are told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    async def create(self, *what: object, **where: object) -> None:
        """Taken."""

    async def patch(self, kind: object, name: str, patch: dict[str, Any], **where: object) -> None:
        self.told[name] = patch["metadata"]["annotations"][names.RESERVED_GPU]


def a_node() -> Node:
    status = {"allocatable": {"pods": "9", names.NVIDIA_GPU: "2"}}
    return msgspec.convert({"metadata": {"name": "node-0", "uid": "n"}, "status": status}, Node)


def a_reservation(name: str, told: str = "") -> LocalPod:
    metadata = {"name": name, "namespace": "reservations", "uid": name}
    metadata |= {"labels": {names.APP_LABEL: names.RESERVATION_APP}}
    metadata |= {"annotations": {names.RESERVED_GPU: told} if told else {}}
    container = {"name": "c", "resources": {"limits": {names.NVIDIA_GPU: "1"}}}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [container]}}, LocalPod
    )


async def test_a_node_that_comes_back_gives_no_device_twice() -> None:
    server = Server()
    client = cast(KubeClient, server)
    watches = Watches(client)
    first, second = (device_id("node-0", names.NVIDIA_GPU, number) for number in range(2))
    watches.nodes(Upserted(a_node(), False))
    watches.pods(Upserted(a_reservation("early", second), False))
    watches.ready.set()
    manager = DeviceManager(client, watches, count=0, shape=NodeShape())
    running = asyncio.create_task(manager.run())
    await manager.ready.wait()
    watches.nodes(Removed("node-0", "n", None))
    watches.nodes(Upserted(a_node(), False))
    watches.pods(Upserted(a_reservation("late"), False))
    await eventually(lambda: server.told)
    running.cancel()
    assert server.told == {"late": first}
