"""Recorded cycles on the wire: in pieces that fit a message."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator

from kai.history.recordings import Entry
from kai.wire.chunks import CHUNK_BYTES
from kai.wire.errors import MalformedMessage
from kai.wire.v1.recording_pb2 import RecordedPiece


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
