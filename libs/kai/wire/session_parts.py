"""Sessions in pieces that fit a message: of a cluster where very much waits there is much to tell."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

from google.protobuf.message import Message

from kai.wire.v1.session_pb2 import PodGroupOutcome, WatchSessionsResponse

#: A quarter of what a message may have.
PART_BYTES: Final = 16 << 20
#: What a list takes for an item beside the item.
_FRAME_BYTES: Final = 8
#: The lists that may be long; all else comes with the first part.
_LISTS: Final = ("outcomes", "faults", "evictions", "nominations", "kept")


def split_session(
    message: WatchSessionsResponse, *, most: int = PART_BYTES
) -> Iterator[WatchSessionsResponse]:
    """The messages that carry a session: mostly itself.

    A pod group of which there is more to tell than one of them may have is told without what its pods are
    told one by one.
    """
    if message.ByteSize() <= most:
        yield message
        return
    part = _without_lists(message)
    size = part.ByteSize()
    for name in _LISTS:
        for item in getattr(message, name):
            told = _bounded(item, most)
            length = told.ByteSize() + _FRAME_BYTES
            if size and size + length > most:
                part.more = True
                yield part
                part, size = WatchSessionsResponse(), 0
            getattr(part, name).append(told)
            size += length
    yield part


async def joined_sessions(
    messages: AsyncIterable[WatchSessionsResponse],
) -> AsyncIterator[WatchSessionsResponse]:
    """The sessions that came in parts; one that ends amid its parts is none."""
    whole: WatchSessionsResponse | None = None
    async for message in messages:
        more = message.more
        if whole is None:
            whole = message
        else:
            whole.MergeFrom(message)
        if more:
            continue
        whole.more = False
        yield whole
        whole = None


def _without_lists(message: WatchSessionsResponse) -> WatchSessionsResponse:
    part = WatchSessionsResponse()
    part.CopyFrom(message)
    for name in _LISTS:
        part.ClearField(name)
    return part


def _bounded(item: Message, most: int) -> Message:
    if not isinstance(item, PodGroupOutcome) or item.ByteSize() <= most:
        return item
    told = PodGroupOutcome()
    told.CopyFrom(item)
    told.ClearField("pod_messages")
    told.ClearField("invalid_pods")
    return told
