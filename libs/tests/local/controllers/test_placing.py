"""The default scheduler keeps account of what is taken, whatever it gets to see of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.reflector import Removed, Upserted
from kai.kube.store import Store
from kai.model.objects import Node
from kai_local.controllers.placing import Placing
from kai_local.parts.objects import LocalPod


class Server:
    """An API server that binds whatever it is asked to."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}

    async def create_subresource(self, kind: object, name: str, *what: Any, namespace: str) -> None:
        self.bound[name] = what[1]["target"]["name"]

    async def patch(self, *what: object, **where: object) -> None:
        """Taken."""


def a_pod(name: str, **more: Any) -> LocalPod:
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    body = {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"containers": [container]}}
    return msgspec.convert(body | more, LocalPod)


class Scene:
    """One node of four cores, on which a pod that wants them all has been put."""

    def __init__(self) -> None:
        self.server = Server()
        self.pods: Store[LocalPod] = Store()
        self.nodes: Store[Node] = Store()
        self.placing = Placing(cast(KubeClient, self.server), self.pods, self.nodes)
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
        self.nodes(Upserted(msgspec.convert({"metadata": {"name": "n"}, "status": status}, Node), False))
        self.pods(Upserted(a_pod("first"), False))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    running = asyncio.create_task(scene.placing.run())
    await eventually(lambda: scene.server.bound == {"first": "n"})
    yield scene
    running.cancel()


async def test_a_pod_that_is_gone_before_it_was_seen_on_its_node_leaves_its_room(scene: Scene) -> None:
    scene.pods(Removed("ns/first", "first", None))
    scene.pods(Upserted(a_pod("next"), False))
    await eventually(lambda: scene.server.bound.get("next") == "n")


async def test_a_pod_that_has_ended_when_it_is_first_seen_on_its_node_leaves_its_room(scene: Scene) -> None:
    spec = msgspec.to_builtins(a_pod("first").spec) | {"nodeName": "n"}
    scene.pods(Upserted(a_pod("first", spec=spec, status={"phase": "Succeeded"}), True))
    scene.pods(Upserted(a_pod("next"), False))
    await eventually(lambda: scene.server.bound.get("next") == "n")


async def test_a_pod_that_is_seen_on_its_node_counts_once(scene: Scene) -> None:
    spec = msgspec.to_builtins(a_pod("first").spec) | {"nodeName": "n"}
    seen = a_pod("first", spec=spec)
    scene.pods(Upserted(seen, True))
    scene.pods(Removed("ns/first", "first", seen))
    scene.pods(Upserted(a_pod("next"), False))
    await eventually(lambda: scene.server.bound.get("next") == "n")
