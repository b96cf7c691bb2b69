"""A snapshot in pieces that fit a message: about 1 MiB each, numbered, the last one marked."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterator
from typing import Final, NamedTuple

from kai.wire.errors import MalformedMessage
from kai.wire.v1.session_pb2 import GetSnapshotResponse

CHUNK_BYTES: Final = 1 << 20


def split_snapshot(
    data: bytes, *, version: int, epoch: int, circumstances: bytes = b""
) -> Iterator[GetSnapshotResponse]:
    """The messages that carry ``data``; an empty snapshot is one empty, last chunk."""
    view = memoryview(data)
    count = max(1, -(-len(data) // CHUNK_BYTES))
    for sequence in range(count):
        yield GetSnapshotResponse(
            version=version,
            epoch=epoch,
            sequence=sequence,
            last=sequence == count - 1,
            data=bytes(view[sequence * CHUNK_BYTES : (sequence + 1) * CHUNK_BYTES]),
            circumstances=b"" if sequence else circumstances,
        )


class Received(NamedTuple):
    """A snapshot as bytes, with its version and the circumstances in which it was cut."""

    version: int
    data: bytes
    circumstances: bytes


async def join_snapshot(chunks: AsyncIterable[GetSnapshotResponse]) -> tuple[int, bytes]:
    """Version and bytes of a snapshot received in chunks; raises as :func:`receive_snapshot`."""
    found = await receive_snapshot(chunks)
    return found.version, found.data


async def receive_snapshot(chunks: AsyncIterable[GetSnapshotResponse]) -> Received:
    """A snapshot received in chunks, with its circumstances.

    Raises:
        MalformedMessage: a chunk is missing, out of order or of another version, or the last one never came.
    """
    parts: list[bytes] = []
    version, circumstances = 0, b""
    async for chunk in chunks:
        if chunk.sequence != len(parts) or (parts and chunk.version != version):
            raise MalformedMessage(
                f"snapshot {chunk.version}: chunk {chunk.sequence} came, {len(parts)} of {version} was due"
            )
        version = chunk.version
        parts.append(chunk.data)
        circumstances = circumstances or chunk.circumstances
        if chunk.last:
            return Received(version, b"".join(parts), circumstances)
    raise MalformedMessage(f"snapshot {version}: ended after {len(parts)} chunks without a last one")
