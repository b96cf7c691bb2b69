"""Asking a process of ours whether it is ready, without an HTTP library in the asking process."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

#: Answers whether a process is ready; never raises.
Probe = Callable[[], Awaitable[bool]]

_PATIENCE = 2.0
_LONGEST_ANSWER = 2**20
_Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def http(url: str, ca_file: Path | None = None) -> Probe:
    """Ready when a GET of ``url`` answers 200. The certificates are read anew at each question."""

    async def ask() -> bool:
        return await http_status(url, ca_file=ca_file) == 200

    return ask


def tcp(host: str, port: int) -> Probe:
    """Ready when somebody listens at a TCP port."""

    async def ask() -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return True
        return False

    return ask


def redis(host: str, port: int) -> Probe:
    """Ready when a Redis server answers a PING at a TCP port."""
    return _redis(lambda: asyncio.open_connection(host, port))


def redis_socket(path: Path) -> Probe:
    """Ready when a Redis server answers a PING at a Unix socket."""
    return _redis(lambda: asyncio.open_unix_connection(path))


def file(path: Path) -> Probe:
    """Ready when the file exists."""

    async def ask() -> bool:
        return path.exists()  # noqa: ASYNC240 - a local file

    return ask


def _redis(connect: _Connect) -> Probe:
    async def ask() -> bool:
        return b"+PONG" in await _exchange(connect, b"PING\r\nQUIT\r\n")

    return ask


async def http_status(url: str, *, ca_file: Path | None = None) -> int:
    """The status of a GET of ``url``; 0 when there is no answer within two seconds."""
    status, _ = await http_answer(url, ca_file=ca_file)
    return status


async def http_answer(url: str, *, ca_file: Path | None = None) -> tuple[int, str]:
    """Status and text of the answer to a GET of ``url``; 0 when there is none within two seconds."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    context = None
    if secure:
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError:
            return 0, ""
    port = parts.port or (443 if secure else 80)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n"
    host = parts.hostname or ""
    answer = await _exchange(lambda: asyncio.open_connection(host, port, ssl=context), request.encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return 0, ""
    return int(words[1]), body.decode(errors="replace")


async def _exchange(connect: _Connect, request: bytes) -> bytes:
    """What the other side answers until it ends, or until nobody waits any longer."""
    answer = bytearray()
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await connect()
            try:
                writer.write(request)
                await writer.drain()
                while len(answer) < _LONGEST_ANSWER and (part := await reader.read(65536)):
                    answer += part
            finally:
                writer.close()
                with contextlib.suppress(OSError, TimeoutError):
                    await writer.wait_closed()
    return bytes(answer)
