"""Recorded cycles on the wire: in pieces that fit a message, and following a scheduler's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

import grpc
import structlog

from kai.history.recordings import Entry
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.chunks import CHUNK_BYTES
from kai.wire.errors import MalformedMessage
from kai.wire.leader import LeaderTracker
from kai.wire.sessions import end_of, messages
from kai.wire.v1.recording_pb2 import RecordedPiece
from kai.wire.v1.session_pb2 import WatchCyclesRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub

#: The longest pause between two tries to follow a scheduler.
PATIENCE_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


def pieces(entry: Entry) -> Iterator[RecordedPiece]:
    """The messages that carry an entry."""
    view = memoryview(entry.data)
    for start in range(0, max(len(entry.data), 1), CHUNK_BYTES):
        yield RecordedPiece(
            shard=entry.shard,
            epoch=entry.epoch,
            number=entry.number,
            version=entry.version,
            at=entry.at,
            base=entry.base,
            data=bytes(view[start : start + CHUNK_BYTES]),
            more=start + CHUNK_BYTES < len(entry.data),
        )


async def joined(messages: AsyncIterable[RecordedPiece]) -> AsyncIterator[Entry]:
    """The entries that came in pieces.

    Raises:
        MalformedMessage: a piece follows that is of something else.
    """
    parts: list[RecordedPiece] = []
    async for piece in messages:
        if parts and (parts[0].number, parts[0].base) != (piece.number, piece.base):
            raise MalformedMessage(
                f"recorded cycle {parts[0].number}: a piece of {piece.number} came before its end"
            )
        parts.append(piece)
        if piece.more:
            continue
        yield Entry(
            shard=piece.shard,
            epoch=piece.epoch,
            number=piece.number,
            version=piece.version,
            at=piece.at,
            base=piece.base,
            data=b"".join(part.data for part in parts),
        )
        parts = []


async def watch_cycles(
    client: KubeClient,
    *,
    lease_name: str,
    namespace: str,
    base_seconds: float,
    tls: TlsFiles | None = None,
) -> AsyncIterator[Entry]:
    """What whoever leads decides, for ever: a base, cycles in order, and another base after so many seconds.

    After a lost connection, and where the scheduler ends the stream, it begins with a base again.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    request = WatchCyclesRequest(base_seconds=base_seconds)
    backoff = Backoff(maximum=PATIENCE_SECONDS)
    async with LeaderTracker(client, lease_name=lease_name, namespace=namespace) as tracker:
        while True:
            leader = await tracker.present()
            try:
                async with (
                    open_channel(leader.endpoint, tls=tls) as channel,
                    end_of(tracker, leader) as ended,
                ):
                    call = SessionServiceStub(channel).WatchCycles(request)
                    async for entry in joined(messages(call, ended)):
                        backoff.reset()
                        yield entry
            except MalformedMessage as error:
                _log.error("cycles cannot be read", endpoint=leader.endpoint, reason=str(error))
            except grpc.aio.AioRpcError as error:
                tell = _log.warning if error.code() is grpc.StatusCode.PERMISSION_DENIED else _log.debug
                tell(
                    "stream of cycles broke",
                    endpoint=leader.endpoint,
                    code=error.code().name,
                    reason=error.details(),
                )
            await asyncio.sleep(backoff.next())
