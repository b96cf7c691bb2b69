"""``/readyz`` of several processes together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from kai.runtime.health import split_address
from kai_local.processes.programs import Child, State
from kai_local.processes.supervisor import Supervisor


@asynccontextmanager
async def serve_readiness(listen: str, supervisor: Supervisor) -> AsyncIterator[None]:
    """Answer at ``host:port`` while the block runs: ``/readyz`` is 200 when all children are ready now."""

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        children = list(supervisor.children.values())
        answers = await asyncio.gather(*map(_is_ready, children))
        lines = [
            f"[{'+' if ready else '-'}]{child.program.name} {'ok' if ready else child.state}"
            for child, ready in zip(children, answers, strict=True)
        ]
        return web.Response(status=200 if all(answers) else 503, text="\n".join(lines) + "\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/livez", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    host, port = split_address(listen)
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


async def _is_ready(child: Child) -> bool:
    """What the process itself says now, not what it said when it started."""
    if child.state is not State.READY:
        return False
    return child.program.ready is None or await child.program.ready()
