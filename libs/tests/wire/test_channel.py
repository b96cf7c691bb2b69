"""Servers and channels on loopback: large messages, health, a port in use."""

import asyncio

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deadlines import patience
from kai.wire.channel import open_channel
from kai.wire.chunks import CHUNK_BYTES, join_snapshot, split_snapshot
from kai.wire.errors import MalformedMessage
from kai.wire.serving import CannotListen, serve
from kai.wire.v1.session_pb2 import GetSnapshotRequest, GetSnapshotResponse
from kai.wire.v1.session_pb2_grpc import (
    SessionServiceServicer,
    SessionServiceStub,
    add_SessionServiceServicer_to_server,
)

pytestmark = pytest.mark.integration


class Snapshots(SessionServiceServicer):
    def __init__(self, data, chunks=None):
        self.data = data

    async def GetSnapshot(self, request, context):
        for chunk in split_snapshot(self.data, version=7, epoch=3):
            yield chunk

    async def WatchSessions(self, request, context):
        raise NotImplementedError


def registering(servicer):
    return lambda server: add_SessionServiceServicer_to_server(servicer, server)


async def test_a_snapshot_larger_than_a_message_arrives_whole():
    data = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"tail"
    async with (
        serve("127.0.0.1:0", [registering(Snapshots(data))]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
        assert await join_snapshot(call) == (7, data)


async def test_a_message_above_the_default_limit_of_grpc_is_let_through():
    class Large(Snapshots):
        async def GetSnapshot(self, request, context):
            yield GetSnapshotResponse(version=1, last=True, data=bytes(20 << 20))

    async with (
        serve("127.0.0.1:0", [registering(Large(b""))]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        _, data = await join_snapshot(
            SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
        )
    assert len(data) == 20 << 20


async def chunks(*sequences, last=True):
    for position, sequence in enumerate(sequences):
        yield GetSnapshotResponse(version=1, sequence=sequence, last=last and position == len(sequences) - 1)


async def test_a_missing_chunk_is_noticed():
    with pytest.raises(MalformedMessage, match="chunk 2"):
        await join_snapshot(chunks(0, 2))


async def test_a_stream_that_stops_early_is_noticed():
    with pytest.raises(MalformedMessage, match="without a last one"):
        await join_snapshot(chunks(0, 1, last=False))


async def test_the_health_service_answers():
    service = "kai.wire.v1.SessionService"
    async with (
        serve("127.0.0.1:0", [], services=[service]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        request = health_pb2.HealthCheckRequest(service=service)
        answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=patience())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
async def test_a_proxy_of_the_environment_is_not_asked_for_the_way_to_a_peer(monkeypatch, variable):
    """Which is one for the world outside, and cannot reach a pod."""
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    asked = []

    async def refuse(reader, writer):
        asked.append(await reader.readline())
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    host, port = proxy.sockets[0].getsockname()
    monkeypatch.setenv(variable, f"http://{host}:{port}")
    async with (
        proxy,
        serve("127.0.0.1:0", [registering(Snapshots(b"x"))]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
        assert await join_snapshot(call) == (7, b"x")
    assert asked == []


async def test_a_port_in_use_is_told_with_the_address():
    async with serve("127.0.0.1:0", []) as port:
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            async with serve(f"127.0.0.1:{port}", []):
                pass


async def test_no_host_means_all_interfaces():
    async with (
        serve(":0", [registering(Snapshots(b"x"))]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
        assert await join_snapshot(call) == (7, b"x")
