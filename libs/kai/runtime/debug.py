"""``/debug/log-level`` and ``/debug/profile``: for people who look into a process that runs.

Only this machine is answered, which in a pod means this pod: with ``kubectl port-forward``. The log level
stands beside ``/healthz``, where both ends of a connection must be on loopback; profiles have a listener of
their own, which is bound to loopback and there only where it was asked for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import threading
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web

from kai.observe import LevelError, LogLevels, change_log_levels, log_levels, profiler
from kai.runtime.health import listen_on

HOST: Final = "127.0.0.1"
#: Bytes of levels that somebody may send.
LONGEST_LEVELS: Final = 4096
DEFAULT_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 300.0
_FORMATS: Final = ("all", "top", "collapsed")

_log = structlog.get_logger(__name__)


def log_level_routes() -> list[web.RouteDef]:
    """Reading and changing how loud the process is."""
    return [web.get("/debug/log-level", _tell_levels), web.put("/debug/log-level", _change_levels)]


async def _tell_levels(request: web.Request) -> web.Response:
    _require_loopback(request)
    return web.Response(text=f"{log_levels()}\n")


async def _change_levels(request: web.Request) -> web.Response:
    _require_loopback(request)
    try:
        levels = _levels(await request.read())
    except (LevelError, UnicodeDecodeError) as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    before = log_levels()
    change_log_levels(levels)
    _log.warning("log level changed", before=str(before), now=str(levels))
    return web.Response(text=f"{levels}\n")


def _levels(body: bytes) -> LogLevels:
    if len(body) > LONGEST_LEVELS:
        raise LevelError(f"allowed are {LONGEST_LEVELS} bytes at most")
    return LogLevels.parse(body.decode())


def _require_loopback(request: web.Request) -> None:
    """Whoever comes from elsewhere may have a sidecar between, so our own end has to be loopback, too."""
    transport = request.transport
    ends = [transport.get_extra_info(end) for end in ("sockname", "peername")] if transport else [None]
    if not all(end and _is_loopback(str(end[0])) for end in ends):
        raise web.HTTPForbidden(text="only connections to localhost may do this; use kubectl port-forward\n")


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


class ProfileServer:
    """Answers ``/debug/profile`` on 127.0.0.1 while it is open; ``port`` 0 takes any that is free."""

    def __init__(
        self,
        port: int,
        *,
        take: Callable[..., profiler.Profile] = profiler.take,
        flag: str = "--profiler-port",
    ) -> None:
        self.port = port
        self._take = take
        self._flag = flag
        self._stop = threading.Event()
        self._busy = False
        app = web.Application()
        app.router.add_get("/debug/profile", self._profile)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self) -> None:
        """Begin to answer.

        Raises:
            ListenError: the port is in use.
        """
        await self._runner.setup()
        _, self.port = await listen_on(self._runner, HOST, self.port, flag=self._flag)

    async def close(self) -> None:
        """Stop answering; a profile that is being taken ends at once."""
        self._stop.set()
        await self._runner.cleanup()

    async def _profile(self, request: web.Request) -> web.Response:
        seconds, form = _asked(request)
        if self._busy:
            raise web.HTTPConflict(text="a profile is being taken; ask again when it is done\n")
        self._busy = True
        try:
            found = await asyncio.to_thread(self._take, seconds, stop=self._stop)
        finally:
            self._busy = False
        parts = {"top": found.top, "collapsed": found.collapsed}
        wanted = parts.values() if form == "all" else [parts[form]]
        return web.Response(text="\n".join(part() for part in wanted))


def _asked(request: web.Request) -> tuple[float, str]:
    text = request.query.get("seconds", str(DEFAULT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_SECONDS:
        raise web.HTTPBadRequest(
            text=f"seconds={text!r}: write a number over 0, at most {LONGEST_SECONDS:g}\n"
        )
    form = request.query.get("format", _FORMATS[0])
    if form not in _FORMATS:
        raise web.HTTPBadRequest(text=f"format={form!r}: allowed are {', '.join(_FORMATS)}\n")
    return seconds, form
