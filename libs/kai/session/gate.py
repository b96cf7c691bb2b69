"""A Redis that can be reached with its password only, and over TLS where there is a certificate.

The redis-server that comes as a wheel speaks no TLS. So it listens on a Unix socket in a folder of its own,
and this process carries to it what comes from the network. The password is told on standard input: command
lines can be read by everybody on a machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kai.session.errors import CannotServe
from kai.session.parents import ends_with_parent
from kai.session.server import START_SECONDS, command
from kai.tls import CertificateFiles, Stamp, renew, server_context

#: Unix sockets have short names only, so it is named from within its folder.
_SOCKET: Final = "redis.sock"
_MOST_CONNECTIONS: Final = 256
#: The kernel asks clients who are silent for a minute, where it can be told when. One whose machine is gone
#: says no goodbye, and would keep its place.
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 6}
_HANDSHAKE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
_CERTIFICATE_POLL_SECONDS: Final = 1.0
_PIECE: Final = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Where to serve, and for whom. Without certificate and key it is plain text."""

    host: str
    port: int
    password_file: Path
    certificate: Path | None = None
    key: Path | None = None
    max_memory: str = "256mb"
    #: A folder where what is told is kept over restarts; None: nowhere.
    data: Path | None = None
    #: When that gets to the disk.
    fsync: str = "everysec"


def ensure_password(path: Path) -> None:
    """Make one of 256 random bits, for us alone, unless the file is there."""
    with contextlib.suppress(FileExistsError):
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fresh, "w") as file:
            file.write(f"{secrets.token_hex(32)}\n")


async def serve(gate: Gate) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        CannotServe: a file or the address cannot be used, or the redis-server has ended.
        RedisServerMissing: there is no redis-server.
    """
    password, context = _read_password(gate.password_file), _context(gate)
    _check(gate.data)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    with tempfile.TemporaryDirectory(prefix="kai-redis-") as folder, contextlib.chdir(folder):
        async with _redis(password, gate) as process, _listener(gate, context):
            await _first(stopping.wait(), process.wait(), _renew(gate, context))
            if not stopping.is_set():
                raise CannotServe(f"redis-server has ended with status {process.returncode}")


def _check(data: Path | None) -> None:
    if data is not None and not (data.is_dir() and os.access(data, os.W_OK | os.X_OK)):
        raise CannotServe(f"--data {data} is no folder that we may write to: make it one")


def _read_password(path: Path) -> str:
    try:
        password = path.read_text().strip()
    except OSError as error:
        raise CannotServe(f"--password-file {path} cannot be read: {error.strerror}") from error
    if not password:
        raise CannotServe(f"--password-file {path} is empty: put a password into it")
    return password


def _context(gate: Gate) -> ssl.SSLContext | None:
    if gate.certificate is None:
        return None
    context = server_context()
    try:
        context.load_cert_chain(gate.certificate, gate.key)
    except OSError as error:
        raise CannotServe(
            f"--tls-cert {gate.certificate} with --tls-key {gate.key} cannot be used: {error}"
        ) from error
    return context


async def _renew(gate: Gate, context: ssl.SSLContext | None) -> None:
    """Show the certificate that lies in the files now, whenever it changes, until cancelled."""
    if context is None or gate.certificate is None or gate.key is None:
        await asyncio.Event().wait()
        return
    files = CertificateFiles(gate.certificate, gate.key)
    loaded: Stamp | None = None
    while True:
        loaded = renew(context, files, loaded)
        await asyncio.sleep(_CERTIFICATE_POLL_SECONDS)


@asynccontextmanager
async def _redis(password: str, gate: Gate) -> AsyncIterator[asyncio.subprocess.Process]:
    """A redis-server whose socket is in the current folder, while the block runs."""
    program, *arguments = _command(gate)
    process = await asyncio.create_subprocess_exec(
        program,
        "-",
        *arguments,
        "--maxmemory",
        gate.max_memory,
        stdin=asyncio.subprocess.PIPE,
        preexec_fn=ends_with_parent(signal.SIGKILL),
    )
    try:
        await _configure(process, password)
        await _answering(process)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _command(gate: Gate) -> list[str]:
    if gate.data is None:
        return command(directory=Path(), unix_socket=Path(_SOCKET))
    # Redis goes to the folder of its data, so a socket elsewhere is named from there, or by its whole name.
    whole, data = os.path.realpath(_SOCKET), os.path.realpath(gate.data)
    name = min(whole, os.path.relpath(whole, data), key=len)
    return command(directory=gate.data, unix_socket=Path(name), keep=True, fsync=gate.fsync)


async def _configure(process: asyncio.subprocess.Process, password: str) -> None:
    quoted = "".join(f"\\x{byte:02x}" for byte in password.encode())
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it has ended; that is told where it is waited for
        process.stdin.write(f'requirepass "{quoted}"\n'.encode())
        await process.stdin.drain()
    process.stdin.close()


async def _answering(process: asyncio.subprocess.Process) -> None:
    """Return when it accepts connections."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_unix_connection(_SOCKET)
                    writer.close()
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise CannotServe(f"redis-server does not answer after {START_SECONDS:g} s") from None
    raise CannotServe(f"redis-server has ended with status {process.returncode}")


@asynccontextmanager
async def _listener(gate: Gate, context: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Carry what comes from the network while the block runs."""
    carried: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(carried) < _MOST_CONNECTIONS:
                carried.add(task)
                await _carry_both(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two has gone, or all ends, which streams would log as an error
        finally:
            carried.discard(task)
            writer.close()

    seconds = None if context is None else _HANDSHAKE_SECONDS
    try:
        server = await asyncio.start_server(
            accept, gate.host or None, gate.port, ssl=context, ssl_handshake_timeout=seconds
        )
    except OSError as error:
        raise CannotServe(f"cannot listen on {gate.host}:{gate.port}: {error.strerror or error}") from error
    for listening in server.sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # what is accepted here is as this is
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):
                listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    try:
        yield
    finally:
        server.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)


async def _carry_both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one of the two ends."""
    there, back = await asyncio.open_unix_connection(_SOCKET)
    try:
        await _first(_carry(reader, back), _carry(there, writer))
    finally:
        back.close()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_PIECE):
        target.write(data)
        await target.drain()


async def _first(*awaited: Coroutine[Any, Any, object]) -> None:
    """Return when one of them has ended, having ended the others; its error is raised."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
