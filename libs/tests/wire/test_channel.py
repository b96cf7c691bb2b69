"""Servers and channels on loopback: large messages, health, mutual TLS, a port in use."""

from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deadlines import patience
from kai.wire.channel import CannotListen, TlsFiles, open_channel, serve
from kai.wire.chunks import CHUNK_BYTES, join_snapshot, split_snapshot
from kai.wire.errors import MalformedMessage
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


async def test_a_port_in_use_is_told_with_the_address():
    async with serve("127.0.0.1:0", []) as port:
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            async with serve(f"127.0.0.1:{port}", []):
                pass


def certificate(folder, name, authority=None):
    """Files of a new key and certificate for ``name``, signed by ``authority`` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer_key, issuer = authority or (key, subject)
    cert = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    (folder / f"{name}.crt").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return key, subject


async def test_with_mutual_tls_only_peers_of_our_authority_get_in(tmp_path):
    authority = certificate(tmp_path, "ca")
    for name in ("scheduler", "binder"):
        certificate(tmp_path, name, authority)
    certificate(tmp_path, "stranger")

    def files(name):
        return TlsFiles(
            ca=tmp_path / "ca.crt",
            cert=tmp_path / f"{name}.crt",
            key=tmp_path / f"{name}.key",
            server_name="scheduler",
        )

    async with serve("127.0.0.1:0", [registering(Snapshots(b"x"))], tls=files("scheduler")) as port:
        async with open_channel(f"127.0.0.1:{port}", tls=files("binder")) as channel:
            call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
            assert await join_snapshot(call) == (7, b"x")
        async with open_channel(f"127.0.0.1:{port}", tls=files("stranger")) as channel:
            call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
            with pytest.raises(grpc.aio.AioRpcError):
                await join_snapshot(call)


async def test_no_host_means_all_interfaces():
    async with (
        serve(":0", [registering(Snapshots(b"x"))]) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = SessionServiceStub(channel).GetSnapshot(GetSnapshotRequest(), timeout=patience())
        assert await join_snapshot(call) == (7, b"x")
