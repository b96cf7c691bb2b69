"""Clients of the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from kai.model.decisions import QueuedGroup, QueueShare
from kai.wire.asking import DEADLINE_SECONDS, Peer, ask, connected_leader, unavailable
from kai.wire.channel import TlsFiles
from kai.wire.chunks import Received, receive_snapshot
from kai.wire.permissions import Role
from kai.wire.session_codec import decode_service_order, decode_shares
from kai.wire.v1.session_pb2 import GetServiceOrderRequest, GetSharesRequest, GetSnapshotRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:  # whose client it is has loaded it
    from kai.kube.client import KubeClient

SNAPSHOT_DEADLINE_SECONDS: Final = 60.0
_SCHEDULER: Final = Peer(
    "scheduler", absent="no scheduler leads; is one running for this shard?", role=Role.SCHEDULER
)

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
            raise unavailable(_SCHEDULER.who, "GetSnapshot", error) from error

    async def shares(self, *, deadline: float = DEADLINE_SECONDS) -> tuple[QueueShare, ...]:
        """How the last session shared out the cluster.

        Raises:
            PeerUnavailable: no answer within ``deadline`` seconds.
        """
        found = await _ask(self._sessions.GetShares, GetSharesRequest(), deadline)
        return decode_shares(found.shares)

    async def service_order(self, *, deadline: float = DEADLINE_SECONDS) -> tuple[QueuedGroup, ...]:
        """Who waits, whoever the next session serves first before the others.

        Raises:
            PeerUnavailable: no answer within ``deadline`` seconds.
            MalformedMessage: its columns differ in length.
        """
        found = await _ask(self._sessions.GetServiceOrder, GetServiceOrderRequest(), deadline)
        return decode_service_order(found)


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
    where = {"lease_name": lease_name, "namespace": namespace}
    async with connected_leader(client, _SCHEDULER, **where, tls=tls, deadline=deadline) as channel:
        yield SchedulerClient(channel)


async def _ask(method: Callable[..., Awaitable[Answer]], request: Any, deadline: float) -> Answer:
    return await ask(method, request, who=_SCHEDULER.who, deadline=deadline)
