"""Channels, set up alike everywhere: limits, keepalive, mutual TLS.

Keepalive finds broken connections. It does not find a peer whose process hangs: where that matters
(decisions) both sides send heartbeats of their own, see :mod:`kai.wire.decisions`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from kai.wire.errors import PeerUnavailable
from kai.wire.permissions import Role, identity

MAX_MESSAGE_BYTES: Final = 64 << 20
KEEPALIVE_SECONDS: Final = 5
KEEPALIVE_TIMEOUT_SECONDS: Final = 5

#: Of clients and servers alike.
LIMITS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
    ("grpc.http2.max_pings_without_data", 0),
    # Without this, pings are held back to one in five minutes while a stream is silent.
    ("grpc.http2.min_time_between_pings_ms", KEEPALIVE_SECONDS * 1000),
]
_CLIENT_OPTIONS: Final = [
    *LIMITS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_retries", 0),
    # Our peers are pods. A proxy of the environment is one for the world outside, and gRPC would ask it even
    # for loopback.
    ("grpc.enable_http_proxy", 0),
    # A peer that comes back is found within seconds, not minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Mutual TLS by files: our certificate and key, and the authority that signs everybody's.

    Certificates name the roles of an installation, which is that in ``namespace``. Files that were renewed
    are taken into use with the next channel that is opened, and the next client that a server greets.
    """

    ca: Path
    cert: Path
    key: Path
    namespace: str


@asynccontextmanager
async def open_channel(
    endpoint: str, *, tls: TlsFiles | None = None, server: Role = Role.SCHEDULER
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to ``host:port``, closed on leaving. Calls on it still need their own deadlines.

    With TLS only who shows the certificate of the role ``server`` is talked to.

    Raises:
        PeerUnavailable: a file for TLS cannot be read, as while a Secret is made anew.
    """
    async with _channel(endpoint, tls, server) as channel:
        yield channel


def _channel(endpoint: str, tls: TlsFiles | None, server: Role) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(endpoint, options=_CLIENT_OPTIONS)
    try:
        credentials = grpc.ssl_channel_credentials(
            root_certificates=tls.ca.read_bytes(),
            private_key=tls.key.read_bytes(),
            certificate_chain=tls.cert.read_bytes(),
        )
    except OSError as error:
        raise PeerUnavailable(
            f"no connection to {endpoint}: {error.filename}, of --tls-ca, --tls-cert and --tls-key, "
            f"cannot be read ({error.strerror}); is the Secret with the certificates there?"
        ) from error
    # Peers are called by their address; their certificates have names.
    options = [*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", identity(server, tls.namespace))]
    return grpc.aio.secure_channel(endpoint, credentials, options=options)
