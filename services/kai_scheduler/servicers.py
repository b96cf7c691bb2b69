"""SessionService: what others may ask of a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from kai.wire.chunks import split_snapshot
from kai.wire.session_codec import encode_service_order, encode_shares
from kai.wire.v1 import session_pb2
from kai.wire.v1.session_pb2_grpc import SessionServiceServicer
from kai_scheduler.core import Core
from kai_scheduler.sessions import SessionLog
from kai_scheduler.snapshots import Snapshots
from kai_scheduler.troubles import Troubles

_Context = grpc.aio.ServicerContext[Any, Any]


class SessionServicer(SessionServiceServicer):
    """Serves the sessions of whoever leads in this process; turns watchers away while nobody does."""

    def __init__(self, core: Core, snapshots: Snapshots, troubles: Troubles) -> None:
        self.log: SessionLog | None = None
        self._core = core
        self._snapshots = snapshots
        self._troubles = troubles

    async def GetSnapshot(  # noqa: N802
        self, request: session_pb2.GetSnapshotRequest, context: _Context
    ) -> AsyncIterator[session_pb2.GetSnapshotResponse]:
        """A snapshot in chunks."""
        try:
            found = await self._snapshots.get(request.version)
        except Exception as error:  # noqa: BLE001 (who asks is told, and nobody else is concerned)
            self._troubles.note("snapshot", error)
            await context.abort(grpc.StatusCode.INTERNAL, _failed("the snapshot cannot be cut", error))
            return
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"snapshot {request.version} is not kept")
            return
        epoch = self.log.epoch if self.log is not None else 0
        for chunk in split_snapshot(
            found.data, version=found.version, epoch=epoch, circumstances=found.circumstances
        ):
            yield chunk

    async def WatchSessions(  # noqa: N802
        self, request: session_pb2.WatchSessionsRequest, context: _Context
    ) -> AsyncIterator[session_pb2.WatchSessionsResponse]:
        """Sessions from the one after the caller's on."""
        if self.log is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler does not lead")
            return
        async for message in self.log.watch(after_version=request.after_version, epoch=request.epoch):
            yield message
        await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler leads no longer")

    async def GetShares(  # noqa: N802
        self, request: session_pb2.GetSharesRequest, context: _Context
    ) -> session_pb2.GetSharesResponse:
        """The shares of the newest session."""
        log = self.log
        if log is None or not log.version:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler does not lead yet")
            raise AssertionError("aborted")
        return session_pb2.GetSharesResponse(shares=encode_shares(log.shares))

    async def GetServiceOrder(  # noqa: N802
        self, request: session_pb2.GetServiceOrderRequest, context: _Context
    ) -> session_pb2.GetServiceOrderResponse:
        """Who waits, in order."""
        try:
            line = await self._core.question(self._core.engine.service_order)
        except Exception as error:
            self._troubles.note("service order", error)
            await context.abort(grpc.StatusCode.INTERNAL, _failed("the order cannot be told", error))
            raise
        if line is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no cycle has run yet")
            raise AssertionError("aborted")
        return encode_service_order(line)


def _failed(what: str, error: Exception) -> str:
    return (
        f"{what}: {type(error).__name__}: {error}. Scheduling is not affected; the scheduler's log has more"
    )
