"""What a case may rely on before it begins to measure."""

from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from e2e.bench.scale import world
from e2e.bench.scale.meter import Reading, Usage
from kai.bench.objects import a_node
from kai.kube.resources import POD_GROUPS, Resource
from kai.model.objects import ApiObject, Node, ObjectMeta


class FakeMeter:
    """Tells one reading after the other, the last one for ever; cores by process."""

    def __init__(self, *readings: dict[str, float]) -> None:
        self.readings = list(readings)

    @asynccontextmanager
    async def running(self):
        reading = Reading()
        yield reading
        spent = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        reading.usage = tuple(
            Usage(process=name, cpu_seconds=seconds, peak_mib=0.0) for name, seconds in spent.items()
        )


def a_world(meter: FakeMeter) -> world.World:
    cluster = SimpleNamespace(name="scale", client=None)
    made = world.World(cluster, world.Size(10), Progress(disable=True))
    made.meter = meter
    return made


@pytest.mark.looptime
async def test_a_case_waits_until_the_processes_rest() -> None:
    meter = FakeMeter({"scheduler": 0.9}, {"scheduler": 0.2}, {"scheduler": 0.01})
    await a_world(meter).at_rest()
    assert meter.readings == [{"scheduler": 0.01}]


@pytest.mark.looptime
async def test_processes_that_never_rest_fail_the_case_and_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(AssertionError, match=r"did not come to rest.*etcd 0\.70, scheduler 0\.20"):
        await a_world(FakeMeter({"scheduler": 0.2, "etcd": 0.7})).at_rest()


class FakeClient:
    """An API server with these nodes; counts what is bound to each, and knows of which pods groups are."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = nodes
        self.bound: Counter[str] = Counter()
        self.grouped: list[str] = []

    async def list(self, *_: Any, **__: Any) -> list[Node]:
        return list(self.nodes)

    async def create(self, resource: Resource, body: Any, **_: Any) -> ApiObject:
        if resource is POD_GROUPS:
            self.grouped += [owner["uid"] for owner in body["metadata"]["ownerReferences"]]
        name = body["metadata"]["name"]
        return ApiObject(metadata=ObjectMeta(name=name, uid=f"uid-of-{name}"))

    async def create_subresource(self, _: Any, name: str, what: str, body: Any, *, namespace: str) -> None:
        assert (what, namespace, name) == ("binding", world.NAMESPACE, body["metadata"]["name"])
        self.bound[body["target"]["name"]] += 1


async def test_bare_requests_bind_to_nodes_with_devices_alone() -> None:
    client = FakeClient(a_node("a"), a_node("this-machine", gpus=0), a_node("b"))
    cluster = SimpleNamespace(name="scale", client=client)
    made = world.World(cluster, world.Size(2), Progress(disable=True))
    await made.submit_bound_pods("bare", 16)
    assert client.bound == {"a": 8, "b": 8}
    assert client.grouped == []


async def test_bare_requests_make_a_group_of_each_pod_where_they_are_to() -> None:
    client = FakeClient(a_node("a"))
    cluster = SimpleNamespace(name="scale", client=client)
    made = world.World(cluster, world.Size(1), Progress(disable=True))
    await made.submit_bound_pods("bare", 2, grouped=True)
    assert sorted(client.grouped) == ["uid-of-bare-0", "uid-of-bare-1"]
    assert client.bound == {"a": 2}
