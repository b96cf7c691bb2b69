"""Who may look into a process."""

import asyncio
import threading

import aiohttp
import pytest

from kai.observe.profiler import Profile
from kai.runtime import debug
from kai.runtime.health import ListenError


class Connection:
    """Both ends of a connection, as a transport tells them."""

    def __init__(self, ours, theirs):
        self._ends = {"sockname": (ours, 1), "peername": (theirs, 2)}

    def get_extra_info(self, name):
        return self._ends[name]


class Request:
    def __init__(self, transport):
        self.transport = transport


@pytest.mark.parametrize(
    ("ours", "theirs", "answered"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.5", "10.0.0.9", False),
        ("10.0.0.5", "127.0.0.6", False),  # a proxy in the pod, for somebody outside of it
        ("127.0.0.1", "10.0.0.9", False),
        ("", "", False),  # no socket of a network
    ],
)
async def test_the_log_level_is_told_on_loopback_alone(ours, theirs, answered):
    request = Request(Connection(ours, theirs))
    if answered:
        assert (await debug._tell_levels(request)).status == 200
        return
    for handler in (debug._tell_levels, debug._change_levels):
        with pytest.raises(debug.web.HTTPForbidden):
            await handler(request)


async def test_a_connection_that_is_gone_is_not_answered():
    with pytest.raises(debug.web.HTTPForbidden):
        await debug._tell_levels(Request(None))


async def test_one_profile_is_taken_at_a_time_and_none_outlives_the_server():
    begun = threading.Event()

    def take(seconds, *, stop):
        begun.set()
        stop.wait()
        return Profile(seconds, 1, {("thread", "module.function"): 1})

    server = debug.ProfileServer(0, take=take)
    await server.start()
    address = f"http://127.0.0.1:{server.port}/debug/profile"
    async with aiohttp.ClientSession() as session:
        first = asyncio.create_task(session.get(f"{address}?seconds=300&format=collapsed"))
        await asyncio.to_thread(begun.wait)
        async with session.get(address) as second:
            assert second.status == 409
        await server.close()
        async with await first as answer:
            assert await answer.text() == "thread;module.function 1\n"


async def test_a_port_in_use_is_told_with_the_flag_to_change():
    server = debug.ProfileServer(0)
    await server.start()
    try:
        with pytest.raises(ListenError, match="choose another with --profiler-port"):
            await debug.ProfileServer(server.port).start()
    finally:
        await server.close()
