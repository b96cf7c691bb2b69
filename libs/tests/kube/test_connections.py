"""Connections between requests."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from deadlines import within
from kai.kube.connections import NewestFirst

BURST = 10


async def test_after_a_burst_one_connection_does_and_the_others_idle() -> None:
    """So they are closed when they idled long enough; in turns each would be used again and again."""
    together = asyncio.Barrier(BURST)
    peers: list[tuple[str, int]] = []

    async def answer(http: web.BaseRequest) -> web.Response:
        assert http.transport is not None
        peers.append(http.transport.get_extra_info("peername"))
        if http.path == "/burst":
            await together.wait()
        return web.Response()

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async with within("all are answered"), aiohttp.ClientSession(connector=NewestFirst(limit=0)) as session:

        async def ask(path: str) -> None:
            async with session.get(url + path) as got:
                await got.read()

        await asyncio.gather(*(ask("/burst") for _ in range(BURST)))
        assert len(set(peers)) == BURST
        peers.clear()
        for _ in range(3 * BURST):
            await ask("/one")
        assert len(set(peers)) == 1
    await runner.cleanup()
