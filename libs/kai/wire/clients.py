"""Clients of the scheduler: found through its Lease, with deadlines, and tried again where that helps.

Programs that live for a moment use these, so nothing here follows anything, or loads what does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from kai.kube.backoff import Backoff
from kai.kube.errors import NotFound
from kai.kube.leases import Leader, Lease, leader_of
from kai.kube.resources import LEASES
from kai.model.decisions import QueueShare
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.chunks import Received, receive_snapshot
from kai.wire.errors import PeerUnavailable
from kai.wire.session_codec import decode_shares
from kai.wire.v1.session_pb2 import GetSharesRequest, GetSnapshotRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:  # whose client it is has loaded it
    from kai.kube.client import KubeClient

DEADLINE_SECONDS: Final = 10.0
SNAPSHOT_DEADLINE_SECONDS: Final = 60.0
#: How long a scheduler that cannot be reached keeps us waiting.
CONNECT_SECONDS: Final = 3.0
#: Worth another try: nothing was done, or asking twice does no harm.
_TRANSIENT: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED)

#: How often a Lease that nobody holds is looked at.
_LOOK_SECONDS: Final = 0.2

Answer = TypeVar("Answer")


class SchedulerClient:
    """Questions to the scheduler at one endpoint. Open it with :func:`connect_scheduler`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._sessions = SessionServiceStub(channel)

    async def snapshot(
        self, *, version: int = 0, deadline: float = SNAPSHOT_DEADLINE_SECONDS
    ) -> tuple[int, bytes]:
        """Version and bytes of a snapshot (0: the newest), as :mod:`kai.snapshot.codec` reads them.

        Raises:
            PeerUnavailable: no answer within ``deadline`` seconds, or it has no such version.
            MalformedMessage: chunks are missing.
        """
        found = await self.picture(version=version, deadline=deadline)
        return found.version, found.data

    async def picture(self, *, version: int = 0, deadline: float = SNAPSHOT_DEADLINE_SECONDS) -> Received:
        """The same with its circumstances, as :mod:`kai.replay.circumstances` reads them; raises the same."""
        try:
            call = self._sessions.GetSnapshot(GetSnapshotRequest(version=version), timeout=deadline)
            return await receive_snapshot(call)
        except grpc.aio.AioRpcError as error:
            raise _unavailable("GetSnapshot", error) from error

    async def shares(self, *, deadline: float = DEADLINE_SECONDS) -> tuple[QueueShare, ...]:
        """How the last session shared out the cluster.

        Raises:
            PeerUnavailable: no answer within ``deadline`` seconds.
        """
        found = await _ask(self._sessions.GetShares, GetSharesRequest(), deadline)
        return decode_shares(found.shares)


@asynccontextmanager
async def connect_scheduler(
    client: KubeClient,
    *,
    lease_name: str,
    namespace: str,
    tls: TlsFiles | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> AsyncIterator[SchedulerClient]:
    """A client of the scheduler that leads now.

    With a ``deadline`` of 0 the Lease is looked at once.

    Raises:
        PeerUnavailable: nobody leads, after waiting for ``deadline`` seconds, or the leader is out of reach.
        KubeError: the Lease cannot be read.
    """
    give_up = asyncio.get_running_loop().time() + deadline
    while (leader := await _leader(client, lease_name, namespace)) is None:
        if asyncio.get_running_loop().time() + _LOOK_SECONDS > give_up:
            raise PeerUnavailable(
                f"lease {namespace}/{lease_name}: no scheduler leads; is one running for this shard?"
            )
        await asyncio.sleep(_LOOK_SECONDS)
    async with open_channel(leader.endpoint, tls=tls) as channel:
        await _connected(channel, leader.endpoint, "with TLS" if tls else "without TLS")
        yield SchedulerClient(channel)


async def _leader(client: KubeClient, name: str, namespace: str) -> Leader | None:
    """Who leads and can be called."""
    try:
        leader = leader_of(await client.get(LEASES, name, namespace=namespace, type=Lease))
    except NotFound:
        return None
    return leader if leader is not None and leader.endpoint else None


async def _connected(channel: grpc.aio.Channel, endpoint: str, how: str) -> None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await channel.channel_ready()
    except TimeoutError:
        raise PeerUnavailable(
            f"scheduler: no connection to {endpoint} {how} within {CONNECT_SECONDS:g} s; "
            "can that address be reached from here, and does it want what we show?"
        ) from None


async def _ask(method: Callable[..., Awaitable[Answer]], request: Any, deadline: float) -> Answer:
    """One question, asked again until it is answered or ``deadline`` seconds have passed."""
    end = asyncio.get_running_loop().time() + deadline
    backoff = Backoff(maximum=5.0)
    while True:
        left = end - asyncio.get_running_loop().time()
        try:
            return await method(request, timeout=max(left, 0.001))
        except grpc.aio.AioRpcError as error:
            delay = backoff.next()
            if error.code() not in _TRANSIENT or left <= delay:
                raise _unavailable(type(request).__name__, error) from error
        await asyncio.sleep(delay)


def _unavailable(question: str, error: grpc.aio.AioRpcError) -> PeerUnavailable:
    return PeerUnavailable(f"scheduler: {question}: {error.code().name}: {error.details()}")
