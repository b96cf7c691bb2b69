"""The way of the API server to the pods of this machine: a proxy that knows the Services.

On clusters whose control plane is not in the pods' network an API server reaches webhooks and kubelets
through such a proxy (HTTP CONNECT, see its egress selector). So nothing of what helm has installed needs to
be changed for it, and nothing that helm installs anew undoes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kai_local.processes import sockets

_HEAD_BYTES = 8192
_PATIENCE = 10.0

#: ``host:port`` or the path of a Unix socket.
Address = str


class NoRoute(Exception):
    """Nobody is to be found there; says why, in one line."""


def socket_path(folder: Path, name: str) -> Path:
    """A path for a Unix socket of a folder; elsewhere if that is too long for one."""
    path = folder / name
    if sockets.fits(path):
        return path
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"kai-{mark}.sock"


@asynccontextmanager
async def serve_proxy(listen: Address, route: Callable[[str, int], Address]) -> AsyncIterator[None]:
    """Connect whoever asks while the block runs. ``route`` tells where a host and port are to be found.

    ``route`` raises :class:`NoRoute`.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        unheard = (asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        try:
            # That all ends streams would log as an error.
            with contextlib.suppress(OSError, *unheard, asyncio.CancelledError):
                await _serve(reader, writer, route)
        finally:
            tasks.discard(task)
            writer.close()

    if "/" in listen:
        Path(listen).unlink(missing_ok=True)  # noqa: ASYNC240 - a local file
        server = await asyncio.start_unix_server(accept, listen)
    else:
        host, _, port = listen.rpartition(":")
        server = await asyncio.start_server(accept, host, int(port))
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if "/" in listen:
            Path(listen).unlink(missing_ok=True)  # noqa: ASYNC240 - a local file


async def connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to an address."""
    async with asyncio.timeout(_PATIENCE):
        if "/" in address:
            return await asyncio.open_unix_connection(address)
        host, _, port = address.rpartition(":")
        return await asyncio.open_connection(host, int(port))


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, route: Callable[[str, int], Address]
) -> None:
    """Read the request, connect, answer, and carry bytes both ways until one side ends."""
    head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].decode(errors="replace").split()
    if len(head) > _HEAD_BYTES or len(words) != 3 or words[0] != "CONNECT":
        writer.write(b"HTTP/1.1 405 only CONNECT is served\r\n\r\n")
        await writer.drain()
        return
    host, _, port = words[1].rpartition(":")
    try:
        there, back = await connect(route(host.strip("[]"), int(port)))
    except (NoRoute, OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        writer.write(f"HTTP/1.1 503 {reason}\r\n\r\n".encode())
        await writer.drain()
        return
    try:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        async with asyncio.TaskGroup() as both:
            both.create_task(_carry(reader, back))
            both.create_task(_carry(there, writer))
    finally:
        back.close()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(2**16):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError, RuntimeError):
        target.write_eof()
