"""What becomes of a stream that nobody listens to any more."""

import asyncio
import gc
import logging
from contextlib import suppress

import grpc
import pytest

from kai.wire.following import _messages

pytestmark = pytest.mark.looptime


class Call:
    """A stream that breaks after ``seconds``, or as soon as somebody stops reading it."""

    def __init__(self, seconds):
        self.seconds = seconds

    async def read(self):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(self.seconds)
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details="it is gone"
        )


@pytest.mark.parametrize("breaks", [1, 60], ids=["broke meanwhile", "breaks over it"])
async def test_how_it_breaks_is_no_error_of_a_listener_that_was_cancelled(breaks, caplog):
    never = asyncio.create_task(asyncio.Event().wait())

    async def listen():
        async for _ in _messages(Call(breaks), never):
            pass

    listening = asyncio.create_task(listen())
    # Before the listener, in the same moment: it is told of the end that it will not look at any more.
    asyncio.get_running_loop().call_later(1, listening.cancel)
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        await asyncio.wait([listening])
        assert listening.cancelled()
        del listening  # which holds what it was at
        gc.collect()
    assert caplog.messages == []
    never.cancel()


async def test_a_stream_that_breaks_is_told_to_its_listener():
    never = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(grpc.aio.AioRpcError, match="it is gone"):
        async for _ in _messages(Call(1), never):
            pass
    never.cancel()


async def test_who_was_replaced_is_listened_to_no_more(caplog):
    ended = asyncio.create_task(asyncio.sleep(1))
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        assert [message async for message in _messages(Call(60), ended)] == []
        gc.collect()
    assert caplog.messages == []
