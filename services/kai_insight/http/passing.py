"""Hands questions about the cluster as it is now to the replica that leads: only that one knows it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import aiohttp
import structlog
from aiohttp import hdrs, web

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.leases import Lease, leader_of
from kai.kube.resources import LEASES
from kai.runtime.health import split_address
from kai.wire.channel import TlsFiles
from kai.wire.permissions import Role, identity
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.streams import Streamed
from kai_insight.live.shard import HEARTBEAT_SECONDS

#: So long it is believed who leads.
_KNOWN_SECONDS: Final = 2.0
#: How long it may take to reach who leads, and until he begins to answer.
_CONNECT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 18.0
#: Of three heartbeats one comes, as long as who leads is there.
_SILENCE_SECONDS: Final = 3 * HEARTBEAT_SECONDS
#: An answer is no longer.
_MOST_BYTES: Final = 64 << 20
#: What comes from another replica is not handed on again.
PASSED_ON: Final = "X-Kai-Passed-On"
#: What of a question, and of an answer, goes along.
_ASKED: Final = (hdrs.AUTHORIZATION, hdrs.ACCEPT_ENCODING)
_ANSWERED: Final = (
    *(hdrs.CONTENT_TYPE, hdrs.CONTENT_ENCODING, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE, hdrs.VARY),
)
_BY_ITSELF: Final = "another replica leads, and this one does not know the cluster as it is now"

_log = structlog.get_logger(__name__)


class Passing:
    """Finds who leads by the Lease; its HTTP server listens on the same port as ours.

    Args:
        tls: how we know each other; None where the server speaks without.
        silence: seconds after which a leader that tells nothing, on a stream, is not listened to any more.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        lease: str,
        namespace: str,
        listen: str,
        tls: TlsFiles | None,
        silence: float = _SILENCE_SECONDS,
    ) -> None:
        self._client = client
        self._lease = lease
        self._namespace = namespace
        self._port = split_address(listen)[1]
        self._tls = tls
        self._silence = silence
        self._session: aiohttp.ClientSession | None = None
        self._context: tuple[float, ssl.SSLContext] | None = None
        self._known: tuple[float, str] | None = None

    async def pass_on(self, request: web.Request, *, streams: bool) -> web.StreamResponse:
        """What the leader answers.

        Raises:
            Problem: nobody leads, or who does cannot be reached (503).
        """
        if PASSED_ON in request.headers:
            raise Problem(Trouble.NO_STATE, f"{_BY_ITSELF}; ask again")
        host = await self._leader()
        headers: dict[str, str] = {PASSED_ON: "1"}
        headers |= {name: request.headers[name] for name in _ASKED if name in request.headers}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                response = await self._open().get(
                    f"{'https' if self._tls else 'http'}://{_in_address(host)}:{self._port}{request.rel_url}",
                    headers=headers,
                    ssl=self._ssl() if self._tls else True,
                    server_hostname=identity(Role.INSIGHT, self._namespace) if self._tls else None,
                    allow_redirects=False,
                )
                if streams and response.status == 200:
                    return PassedStream(response)
                async with response:
                    return _as_answered(response, await _whole(response))
        except (aiohttp.ClientError, ssl.SSLError, OSError, TimeoutError) as error:
            _log.warning("who leads cannot be asked", host=host, port=self._port, reason=str(error))
            raise Problem(
                Trouble.NO_STATE, f"{_BY_ITSELF}; the one that leads does not answer, ask again later"
            ) from error

    async def _leader(self) -> str:
        now = asyncio.get_running_loop().time()
        if self._known is not None and now - self._known[0] < _KNOWN_SECONDS:
            return self._known[1]
        try:
            lease = await self._client.get(LEASES, self._lease, namespace=self._namespace, type=Lease)
        except KubeError as error:
            raise Problem(
                Trouble.NO_STATE, f"{_BY_ITSELF}; the API server does not say which one leads, ask again"
            ) from error
        leader = leader_of(lease)
        host = leader.endpoint.rpartition(":")[0].strip("[]") if leader is not None else ""
        if not host:
            raise Problem(Trouble.NO_STATE, "no insight leads at the moment; ask again")
        self._known = now, host
        return host

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=self._silence)
            # Each stream keeps a connection. How many there may be says who leads, and how many questions
            # whoever is asked: a bound here would let questions wait for a stream to end.
            connections = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                auto_decompress=False, timeout=limits, connector=connections
            )
        return self._session

    def _ssl(self) -> ssl.SSLContext:
        """Trusts our authority alone, as it is in its file now."""
        assert self._tls is not None
        stamp = self._tls.ca.stat().st_mtime
        if self._context is None or self._context[0] != stamp:
            self._context = stamp, ssl.create_default_context(cafile=str(self._tls.ca))
        return self._context[1]

    async def close(self) -> None:
        """Hand nothing on any more."""
        if self._session is not None:
            await self._session.close()


class PassedStream(Streamed):
    """Events as the leader tells them."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__()
        _copy(response, self)
        self._response = response

    async def send(self, request: web.Request) -> None:
        """Until either end has enough; who listens asks again then, and begins anew."""
        async with self._response:
            await self.prepare(request)
            try:
                async for data in self._response.content.iter_any():
                    await self.tell(data)
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                if request.transport is not None:
                    request.transport.abort()


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer, however many pieces it comes in: a single read gives what is there by then."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _MOST_BYTES:
            raise Problem(
                Trouble.NO_STATE,
                f"{_BY_ITSELF}; the answer of the one that leads has more than {_MOST_BYTES >> 20} MiB, "
                "ask for less",
            )
    return bytes(body)


def _as_answered(response: aiohttp.ClientResponse, body: bytes) -> web.Response:
    found = web.Response(status=response.status, body=body)
    _copy(response, found)
    return found


def _copy(response: aiohttp.ClientResponse, answer: web.StreamResponse) -> None:
    for name in _ANSWERED:
        if name in response.headers:
            answer.headers[name] = response.headers[name]


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
