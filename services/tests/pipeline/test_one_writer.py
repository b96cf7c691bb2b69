"""A slow API server, and one that pushes back, cost statuses and events their time, not binds."""

import asyncio
from dataclasses import dataclass

import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder, ObjectReference
from kai.kube.flight_limit import START
from kai.kube.resources import POD_GROUPS, PODS
from kai.observe import new_registry

pytestmark = pytest.mark.integration

BINDS, BEHIND = 60, 500
BINDER = "kai-one-writer"


@dataclass
class Writer:
    """A process that binds, and has very much to tell besides."""

    client: KubeClient
    events: EventRecorder
    registry: object

    async def bind(self, pod):
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self.client.create_subresource(PODS, pod, "binding", body, namespace="default", deadline=120.0)

    async def status(self, number):
        patch = {"status": {"phase": f"Seen{number}"}}
        await self.client.patch(
            POD_GROUPS, f"g{number}", patch, namespace="default", subresource="status", deadline=120.0
        )

    def event(self, number):
        about = ObjectReference(api_version="v1", kind="Pod", namespace="default", name=f"p{number}")
        self.events.emit(about, "Normal", "Told", f"number {number}")

    def waiting(self, rank):
        return self.registry.get_sample_value("kai_api_writes_waiting", {"rank": rank})


@pytest.fixture
async def writer(cluster):
    registry = new_registry()
    async with KubeClient.connect(str(cluster.kubeconfig), user_agent=BINDER, registry=registry) as client:
        events = EventRecorder(client, controller="one-writer", registry=registry)
        running = asyncio.create_task(events.run())
        yield Writer(client, events, registry)
        running.cancel()
        await asyncio.wait([running])


async def pods(cluster, prefix):
    """So many that wait for their bind; their names."""
    body = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    names = [f"{prefix}{number}" for number in range(BINDS)]
    for name in names:
        await cluster.client.create(PODS, {"metadata": {"name": name}, **body}, namespace="default")
    return names


async def seconds_for(writer, names):
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with within("all are bound", times=10):
        await asyncio.gather(*(writer.bind(name) for name in names))
    return loop.time() - began


@pytest.fixture
async def furnished(cluster):
    await cluster.node("n1")
    for number in range(BEHIND):
        await cluster.group(f"g{number}")
    return cluster


async def test_binds_keep_their_pace_at_a_slow_api_server_whatever_waits_behind_them(furnished, writer):
    alone, beside = await pods(furnished, "alone-"), await pods(furnished, "beside-")
    furnished.fault(user_agent=BINDER, delay=0.5, count=-1)
    before = await seconds_for(writer, alone)
    for number in range(BEHIND):
        writer.event(number)
    statuses = [asyncio.create_task(writer.status(number)) for number in range(BEHIND)]
    while writer.waiting("status") < BEHIND / 2:
        await asyncio.sleep(0)
    with_others = await seconds_for(writer, beside)
    assert sum(task.done() for task in statuses) < BEHIND / 2, "statuses waited behind the binds"
    # Those that were under way hold their places for one answer more.
    assert with_others < 2 * before + 1.0
    for task in statuses:
        task.cancel()
    await asyncio.wait(statuses)


async def test_binds_come_first_at_an_api_server_that_pushes_back(furnished, writer):
    """It refuses as many writes as there are binds, and wants to be left alone for a second each time."""
    names = await pods(furnished, "throttled-")
    furnished.fault(user_agent=BINDER, delay=0.2, status=429, retry_after=1, count=BINDS)
    furnished.fault(user_agent=BINDER, delay=0.2, count=-1)
    for number in range(BEHIND):
        writer.event(number)
    statuses = [asyncio.create_task(writer.status(number)) for number in range(BEHIND)]
    while writer.waiting("status") < BEHIND / 2:
        await asyncio.sleep(0)
    await eventually(lambda: writer.registry.get_sample_value("kai_api_write_limit") < START)
    await seconds_for(writer, names)
    assert sum(task.done() for task in statuses) < BEHIND / 2, "statuses waited behind the binds"
    async with within("what waited is written as well", times=10):
        await asyncio.gather(*statuses)
