"""``POST /simulate``: fair shares over HTTP, as the original's ``fairshare-simulator`` gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from kai.simulate.fair_share import Question, divide
from kai.simulate.reading import InvalidInput
from kai_cli import addresses

_LARGEST_BYTES: Final = 4 * 2**20
_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type",
}


class ListenFailed(Exception):
    """The address cannot be listened on; the message names it."""


async def serve(address: str, *, cors: bool, say: Callable[[str], object]) -> None:
    """Answer until cancelled; ``say`` is told where once we do.

    An address that names no host, as a port alone, is one on loopback.

    Raises:
        ListenFailed: the address is none, or somebody else has it.
    """
    try:
        host, port = addresses.split(f":{address}" if address.isdecimal() else address)
    except ValueError as error:
        raise ListenFailed(f"--listen {error}") from error
    runner = web.AppRunner(application(cors=cors))
    await runner.setup()
    try:
        await web.TCPSite(runner, host or "127.0.0.1", port).start()
        bound_host, bound_port = runner.addresses[0][:2]
        say(f"POST to http://{addresses.written(bound_host, bound_port)}/simulate")
        await asyncio.Event().wait()
    except OSError as error:
        raise ListenFailed(f"--listen {address}: {error}") from error
    finally:
        await runner.cleanup()


def application(*, cors: bool) -> web.Application:
    """What is served; with ``cors`` pages of other sites may ask, too."""
    headers = _CORS if cors else {}

    async def answer(request: web.Request) -> web.Response:
        try:
            question = Question.read(msgspec.json.decode(await request.read()))
        except (msgspec.DecodeError, UnicodeDecodeError, InvalidInput, RecursionError) as error:
            return web.Response(status=400, text=f"{error}\n", headers=headers)
        shares = await asyncio.to_thread(divide, question)
        body = {
            queue: {"gpu": gpu, "cpu": cpu, "memory": memory} for queue, (cpu, memory, gpu) in shares.items()
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json", headers=headers)

    async def allow(_: web.Request) -> web.Response:
        return web.Response(headers=headers)

    found = web.Application(client_max_size=_LARGEST_BYTES)
    found.router.add_post("/simulate", answer)
    if cors:
        found.router.add_options("/simulate", allow)
    return found
