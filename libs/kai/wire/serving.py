"""Servers, set up alike everywhere: limits, keepalive, mutual TLS, health service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from kai.wire.authorization import Authorization
from kai.wire.channel import KEEPALIVE_SECONDS, LIMITS, TlsFiles

#: What a server takes of those who may call it. Large are its answers.
MAX_REQUEST_BYTES: Final = 8 << 20
_SERVER_OPTIONS: Final = [
    *LIMITS,
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    # Requests are small, and what nobody reads need not come in: no larger window for quick senders.
    ("grpc.http2.bdp_probe", 0),
    # Two servers on one port would share out the connections between them, silently.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 1000 // 2),
    ("grpc.keepalive_permit_without_calls", 1),
]

Registration = Callable[[grpc.aio.Server], None]


class CannotListen(OSError):
    """The address is taken or not ours."""


@asynccontextmanager
async def serve(
    listen: str,
    registrations: Sequence[Registration],
    *,
    tls: TlsFiles | None = None,
    services: Sequence[str] = (),
    grace_seconds: float = 1.0,
    metrics: CollectorRegistry | None = None,
) -> AsyncIterator[int]:
    """Serve on ``host:port`` (port 0: any) while the block runs; gives the port.

    Only what :data:`kai.wire.permissions.PERMISSIONS` allows the caller is answered. The standard health
    service answers for ``services`` and for the server as a whole.

    Raises:
        CannotListen: the address is taken, or a file for TLS cannot be read.
    """
    authorization = Authorization(namespace=tls.namespace if tls else None, metrics=metrics)
    server = grpc.aio.server(options=_SERVER_OPTIONS, interceptors=[authorization])
    for register in registrations:
        register(server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    port = _bind(server, listen, tls)
    await server.start()
    try:
        for name in ("", *services):
            await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        yield port
    finally:
        await checks.enter_graceful_shutdown()
        await server.stop(grace_seconds)


def _bind(server: grpc.aio.Server, listen: str, tls: TlsFiles | None) -> int:
    # gRPC wants a host; this one means all interfaces, also where there is no IPv6.
    address = f"[::]{listen}" if listen.startswith(":") else listen
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(tls))
    except OSError as error:
        raise CannotListen(
            f"grpc-listen {listen}: {error.filename}, of --tls-ca, --tls-cert and --tls-key, cannot be read "
            f"({error.strerror}); is the Secret with the certificates there?"
        ) from error
    except RuntimeError as error:
        raise CannotListen(f"grpc-listen {listen}: cannot listen there; is the port in use?") from error
    if port == 0:
        raise CannotListen(f"grpc-listen {listen}: cannot listen there; is the port in use?")
    return port


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """What a server shows and asks for, read again whenever one of the files has changed."""
    seen = _stamp(tls)

    def renewed() -> Any:  # None, which its annotation does not have, stands for no news
        nonlocal seen
        try:
            if (stamp := _stamp(tls)) == seen:
                return None
            configuration = _configuration(tls)
        except OSError:
            return None  # they are just being replaced: the next client is greeted with the new ones
        seen = stamp
        return configuration

    return grpc.dynamic_ssl_server_credentials(
        _configuration(tls), renewed, require_client_authentication=True
    )


def _configuration(tls: TlsFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(tls.key.read_bytes(), tls.cert.read_bytes())], root_certificates=tls.ca.read_bytes()
    )


def _stamp(tls: TlsFiles) -> tuple[int, ...]:
    return tuple(path.stat().st_mtime_ns for path in (tls.ca, tls.cert, tls.key))
