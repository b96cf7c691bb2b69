"""The API of a kubelet, as far as processes have what it serves: their logs."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from kai.runtime import certificates
from kai_local.parts.this_machine import NODE
from kai_local.processes.programs import Child

_LOOK_EVERY = 0.2
_REFUSED = ("sinceSeconds", "sinceTime", "timestamps")

#: The process of a pod (``namespace/name``), if there is one.
Find = Callable[[str], Child | None]


@asynccontextmanager
async def serve_kubelet(socket: Path, folder: Path, find: Find) -> AsyncIterator[None]:
    """Serve at a Unix socket while the block runs, with a certificate made in ``folder``."""
    certificates.ensure(folder, [NODE])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / certificates.CERTIFICATE_FILE, folder / certificates.KEY_FILE)

    async def logs(request: web.Request) -> web.StreamResponse:
        return await _logs(request, find)

    app = web.Application()
    app.add_routes(
        [
            web.get("/containerLogs/{namespace}/{pod}/{container}", logs),
            web.route("*", "/{what}/{namespace}/{pod}{rest:.*}", _refuse),
        ]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False, handler_cancellation=True)
    await runner.setup()
    socket.unlink(missing_ok=True)  # noqa: ASYNC240 - a local file
    try:
        await web.UnixSite(runner, str(socket), ssl_context=context).start()
        yield
    finally:
        await runner.cleanup()
        socket.unlink(missing_ok=True)  # noqa: ASYNC240 - a local file


async def _refuse(request: web.Request) -> web.Response:
    key, what = f"{request.match_info['namespace']}/{request.match_info['pod']}", request.match_info["what"]
    problem = f"pod {key} is a process of this machine and no container"
    remedy = "see `kai local status` for its process id and address"
    if what == "portForward":  # this answer goes to kubectl as it is
        message = f"{problem}: no port needs to be forwarded; {remedy}"
        failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 501}
        return web.json_response(failure, status=501)
    return web.Response(status=501, text=f"{problem}: there is nothing to {what}; {remedy}\n")


async def _logs(request: web.Request, find: Find) -> web.StreamResponse:
    key = f"{request.match_info['namespace']}/{request.match_info['pod']}"
    child = find(key)
    if child is None:
        return web.Response(status=404, text="its process has not been started\n")
    if asked := [name for name in _REFUSED if request.query.get(name) not in (None, "", "false")]:
        problem = f"{asked[0]}: this machine does not know when a line was written; ask without it\n"
        return web.Response(status=400, text=problem)
    previous = request.query.get("previous") == "true"
    run = child.previous if previous else child.run
    if run is None:
        name = request.match_info["container"]
        return web.Response(status=400, text=f'previous terminated container "{name}" not found\n')
    start, end = run.log
    text = _read(child.log, start, end)
    position = start + len(text)
    if tail := request.query.get("tailLines"):
        text = b"".join(text.splitlines(keepends=True)[-int(tail) or len(text) :])
    most = int(request.query.get("limitBytes") or sys.maxsize)
    text = text[:most]
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    await response.write(text)
    if request.query.get("follow") == "true" and not previous:
        await _follow(response, child, position, most - len(text), lambda: find(key) is child)
    await response.write_eof()
    return response


async def _follow(
    response: web.StreamResponse, child: Child, position: int, most: int, known: Callable[[], bool]
) -> None:
    """Send what its process writes until that has ended, or ``most`` bytes are sent."""
    run = child.run
    while run is not None and most > 0:
        over = not known() or child.run is not run or bool(run.ended_at)
        text = _read(child.log, position, run.log[1])[:most]
        position, most = position + len(text), most - len(text)
        if text:
            await response.write(text)
        if over:
            return
        await asyncio.sleep(_LOOK_EVERY)


def _read(log: Path, start: int, end: int | None) -> bytes:
    if not log.exists():
        return b""
    with log.open("rb") as file:
        file.seek(start)
        return file.read() if end is None else file.read(max(0, end - start))
