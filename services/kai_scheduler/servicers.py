"""SessionService and ExplainService: what others may ask of a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import grpc

from kai.model.ids import PodGroupKey
from kai.snapshot.state import ClusterState
from kai.wire.chunks import split_snapshot
from kai.wire.session_codec import encode_shares
from kai.wire.v1 import explain_pb2, session_pb2
from kai.wire.v1.explain_pb2_grpc import ExplainServiceServicer
from kai.wire.v1.session_pb2_grpc import SessionServiceServicer
from kai_scheduler import explanations
from kai_scheduler.core import Core
from kai_scheduler.sessions import SessionLog
from kai_scheduler.snapshots import Snapshots
from kai_scheduler.troubles import Troubles

T = TypeVar("T")
_Context = grpc.aio.ServicerContext[Any, Any]


class SessionServicer(SessionServiceServicer):
    """Serves the sessions of whoever leads in this process; turns watchers away while nobody does."""

    def __init__(self, snapshots: Snapshots, troubles: Troubles) -> None:
        self.log: SessionLog | None = None
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


class ExplainServicer(ExplainServiceServicer):
    """Asks the engine, on the newest state; a standby can answer too."""

    def __init__(self, core: Core, troubles: Troubles, *, clock: Callable[[], float]) -> None:
        self.log: SessionLog | None = None
        self._core = core
        self._troubles = troubles
        self._clock = clock

    @property
    def _version(self) -> int:
        return self.log.version if self.log is not None else 0

    async def ExplainPodGroup(  # noqa: N802
        self, request: explain_pb2.ExplainPodGroupRequest, context: _Context
    ) -> explain_pb2.ExplainPodGroupResponse:
        """Why a pod group is as it is."""
        key = PodGroupKey(f"{request.namespace}/{request.name}")
        now = self._clock()
        engine = self._core.engine
        found = await self._answer(
            f"PodGroup {key}", lambda state: explanations.pod_group(engine, state, key, now), context
        )
        found.version = self._version
        return found

    async def ExplainPod(  # noqa: N802
        self, request: explain_pb2.ExplainPodRequest, context: _Context
    ) -> explain_pb2.ExplainPodResponse:
        """Why a pod is where it is, or is nowhere."""
        key = f"{request.namespace}/{request.name}"
        now = self._clock()
        engine = self._core.engine
        found = await self._answer(
            f"Pod {key}", lambda state: explanations.pod(engine, state, key, now), context
        )
        found.version = self._version
        return found

    async def _answer(self, about: str, question: Callable[[ClusterState], T], context: _Context) -> T:
        try:
            return await self._core.question(question)
        except Exception as error:
            self._troubles.note("explanation", error, about=about)
            await context.abort(grpc.StatusCode.INTERNAL, _failed(f"{about} cannot be explained", error))
            raise


def _failed(what: str, error: Exception) -> str:
    return (
        f"{what}: {type(error).__name__}: {error}. Scheduling is not affected; the scheduler's log has more"
    )
