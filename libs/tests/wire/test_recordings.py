"""Recorded cycles come over the wire as they were, in pieces that fit a message."""

import pytest

from kai.history.recordings import Entry
from kai.wire.chunks import CHUNK_BYTES
from kai.wire.errors import MalformedMessage
from kai.wire.recordings import joined, pieces


def an_entry(number, *, size, base=False):
    data = bytes(n % 251 for n in range(size))
    return Entry(shard="gold", epoch=7, number=number, version=3, at=1.5, base=base, data=data)


async def sent(*messages):
    for message in messages:
        yield message


async def test_entries_of_any_size_come_as_they_were():
    entries = [
        an_entry(1, size=CHUNK_BYTES * 2 + 1, base=True),
        an_entry(2, size=0),
        an_entry(3, size=CHUNK_BYTES),
    ]
    messages = [message for entry in entries for message in pieces(entry)]
    assert [len(message.data) for message in messages] == [CHUNK_BYTES, CHUNK_BYTES, 1, 0, CHUNK_BYTES]
    assert [entry async for entry in joined(sent(*messages))] == entries


async def test_a_piece_of_something_else_before_the_end_is_refused():
    first, *_ = pieces(an_entry(1, size=CHUNK_BYTES + 1))
    (other,) = pieces(an_entry(2, size=1))
    with pytest.raises(MalformedMessage, match="recorded cycle 1: a piece of 2 came before its end"):
        assert [entry async for entry in joined(sent(first, other))]
