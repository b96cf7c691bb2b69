"""SessionService: what others may ask of a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import grpc

from kai.model.failures import described
from kai.replay.cycles import CannotBeTold
from kai.wire.chunks import split_snapshot
from kai.wire.recordings import pieces
from kai.wire.session_codec import encode_service_order, encode_shares
from kai.wire.session_parts import split_session
from kai.wire.v1 import session_pb2
from kai.wire.v1.recording_pb2 import RecordedPiece
from kai.wire.v1.session_pb2_grpc import SessionServiceServicer
from kai_scheduler.core import Core
from kai_scheduler.cycles import CycleLog
from kai_scheduler.sessions import SessionLog
from kai_scheduler.snapshots import Snapshots
from kai_scheduler.troubles import Troubles

#: A base costs as much as a snapshot.
LEAST_BASE_SECONDS: Final = 1.0

_Context = grpc.aio.ServicerContext[Any, Any]


class SessionServicer(SessionServiceServicer):
    """Serves the sessions of whoever leads in this process; turns watchers away while nobody does."""

    def __init__(self, core: Core, snapshots: Snapshots, troubles: Troubles) -> None:
        self.log: SessionLog | None = None
        self.cycles: CycleLog | None = None
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
        async for message in self.log.watch(
            after_version=request.after_version,
            epoch=request.epoch,
            from_first=request.from_first,
            with_evictions=request.with_evictions,
        ):
            for part in split_session(message):
                yield part
        await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler leads no longer")

    async def WatchCycles(  # noqa: N802
        self, request: session_pb2.WatchCyclesRequest, context: _Context
    ) -> AsyncIterator[RecordedPiece]:
        """A base, and cycles from there on."""
        if self.cycles is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler does not lead")
            return
        base_seconds = request.base_seconds
        if not base_seconds >= LEAST_BASE_SECONDS:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"base_seconds is {base_seconds:g}; it must be {LEAST_BASE_SECONDS:g} or more",
            )
            return
        try:
            async with aclosing(self.cycles.watch(base_seconds=base_seconds)) as entries:
                async for entry in entries:
                    for piece in pieces(entry):
                        yield piece
        except CannotBeTold as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{error}; ask again later")
            return
        except Exception as error:  # noqa: BLE001 (who listens is told, and nobody else is concerned)
            self._troubles.note("recording", error)
            await context.abort(grpc.StatusCode.INTERNAL, _failed("the recording cannot be told", error))
            return
        await context.abort(grpc.StatusCode.UNAVAILABLE, "a cycle is missing; ask again for a base")

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
    return f"{what}: {described(error)}. Scheduling is not affected; the scheduler's log has more"
