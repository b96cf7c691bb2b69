"""The exporter's kubelet client against what a kubelet sends, byte by byte."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from kai_numa_placement_exporter.kubelet import Kubelet
from kai_numa_placement_exporter.placement import placement

RECORDED = Path(__file__).parent / "recorded" / "list.hex"
ZONES = dict.fromkeys(range(4), 0) | dict.fromkeys(range(4, 8), 1)


def answer():
    lines = (line.partition("#")[0] for line in RECORDED.read_text().splitlines())
    return b"".join(map(bytes.fromhex, lines))


@asynccontextmanager
async def playing(socket, sent):
    """A socket at which that one call is answered so; what the call carried is appended to ``sent``."""

    async def reply(request, context):
        sent.append(request)
        return answer()

    lister = {"List": grpc.unary_unary_rpc_method_handler(reply)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", lister)])
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


@pytest.fixture
async def told(tmp_path):
    sent = []
    async with playing(tmp_path / "kubelet.sock", sent), Kubelet(str(tmp_path / "kubelet.sock")) as kubelet:
        pods = {pod.name: pod for pod in await kubelet.pods()}
    assert sent == [b""]
    return pods


async def test_all_that_a_kubelet_sends_is_read_and_what_is_not_known_does_no_harm(told):
    assert [(pod.namespace, name) for name, pod in told.items()] == [("team", "trainer-0"), ("team", "idle")]
    (container,) = told["trainer-0"].containers
    assert [(one.resource_name, [*one.device_ids]) for one in container.devices] == [
        ("nvidia.com/gpu", ["GPU-a"]),
        ("nvidia.com/gpu", ["GPU-b", "GPU-c"]),
    ]
    assert [[node.ID for node in one.topology.nodes] for one in container.devices] == [[0], [1]]
    assert [*container.cpu_ids] == [2, 3, 5]
    (memory,) = container.memory
    assert (memory.memory_type, memory.size, [node.ID for node in memory.topology.nodes]) == (
        "memory",
        1 << 30,
        [1],
    )


async def test_the_zones_of_a_pod_are_told_by_it(told):
    assert json.loads(placement(told["trainer-0"], ZONES)) == [
        {"zone": "node-0", "amount": {"cpu": "2", "nvidia.com/gpu": "1"}},
        {"zone": "node-1", "amount": {"cpu": "1", "memory": "1073741824", "nvidia.com/gpu": "2"}},
    ]
    assert placement(told["idle"], ZONES) == ""
