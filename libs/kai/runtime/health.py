"""``/healthz``, ``/readyz`` and ``/metrics``.

``/healthz`` says that the event loop turns, and asks the checks of life if there are any; ``/readyz`` asks
all named checks, and lists them with ``?verbose``; ``/readyz/NAME`` asks one. What people should know, though
it makes nobody unready, are notes: they are listed too, and change no answer.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry

from kai.observe import exposition

#: None: nothing to tell. Else what people should know.
Note = Callable[[], str | None]
#: True or None: fine. False or a text: not, and why.
Check = Callable[[], bool | str | None]


class ListenError(Exception):
    """An address cannot be listened on; the message names it and the setting to change."""


class Health:
    """The named conditions under which this process is ready."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._of_life: set[str] = set()
        self._notes: dict[str, Note] = {}

    def note(self, name: str, note: Note) -> None:
        """List what ``note`` says beside the checks; it is called on the event loop and must be quick."""
        self._notes[name] = note

    def notes(self) -> dict[str, str]:
        """By name, what people should know."""
        told = {name: note() for name, note in self._notes.items()}
        return {name: text for name, text in told.items() if text}

    def add(self, name: str, check: Check, *, of_life: bool = False) -> None:
        """Be ready only while ``check`` says so; it is called on the event loop and must be quick.

        Failing a check of life asks for a restart.
        """
        self._checks[name] = check
        if of_life:
            self._of_life.add(name)

    def remove(self, name: str) -> None:
        """Ask this no longer."""
        self._checks.pop(name, None)
        self._of_life.discard(name)

    def ask(self, only: str = "") -> dict[str, str]:
        """By name, what is wrong; an empty text where nothing is."""
        checks = {only: self._checks[only]} if only else self._checks
        return {name: _complaint(check()) for name, check in checks.items()}

    @property
    def ready(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.ask().values())

    @property
    def alive(self) -> bool:
        """Whether nothing is wrong that only a restart could mend."""
        return not any(wrong for name, wrong in self.ask().items() if name in self._of_life)


def _complaint(answer: bool | str | None) -> str:
    if isinstance(answer, str):
        return answer
    return "" if answer is not False else "not yet"


class HealthServer:
    """Serves health on one address and metrics on the same or another one."""

    def __init__(
        self, health: Health, registry: CollectorRegistry, *, routes: Iterable[web.RouteDef] = ()
    ) -> None:
        """``routes`` are served beside health."""
        self._health = health
        self._routes = tuple(routes)
        self._registry = registry
        self._runners: list[web.AppRunner] = []
        #: ``(host, port)`` that were bound; of use where port 0 was asked for.
        self.health_address = ("", 0)
        self.metrics_address = ("", 0)

    async def start(self, *, health_listen: str, metrics_listen: str) -> None:
        """Begin to answer.

        Raises:
            ListenError: an address is in use or not ours.
        """
        same = health_listen == metrics_listen
        routes = self._health_routes() + (self._metrics_routes() if same else [])
        self.health_address = await self._listen(health_listen, routes, "--health-listen")
        if same:
            self.metrics_address = self.health_address
        else:
            self.metrics_address = await self._listen(
                metrics_listen, self._metrics_routes(), "--metrics-listen"
            )

    async def close(self) -> None:
        """Stop answering."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()

    async def _listen(self, listen: str, routes: list[web.RouteDef], flag: str) -> tuple[str, int]:
        host, port = split_address(listen)
        app = web.Application()
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        return await listen_on(runner, host, port, flag=flag)

    def _health_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/livez", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/readyz/{check}", self._readyz),
            *self._routes,
        ]

    def _metrics_routes(self) -> list[web.RouteDef]:
        return [web.get("/metrics", self._metrics)]

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok") if self._health.alive else web.Response(status=503, text="not alive")

    async def _readyz(self, request: web.Request) -> web.Response:
        try:
            answers = self._health.ask(request.match_info.get("check", ""))
        except KeyError as unknown:
            return web.Response(status=404, text=f"there is no check {unknown}")
        ready = not any(answers.values())
        if ready and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name}: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in answers.items()]
        lines += [f"[!]{name}: {text}" for name, text in self._health.notes().items()]
        lines.append("ready" if ready else "not ready")
        return web.Response(status=200 if ready else 503, text="\n".join(lines) + "\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        headers = {"Content-Type": exposition.CONTENT_TYPE}
        return web.Response(body=exposition.encode(self._registry), headers=headers)


def split_address(listen: str) -> tuple[str | None, int]:
    """Host (None: all interfaces) and port of ``host:port``."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]") or None, int(port)


async def listen_on(
    runner: web.AppRunner, host: str | None, port: int, *, flag: str, **options: object
) -> tuple[str, int]:
    """Bind; the address bound.

    Raises:
        ListenError: it cannot be bound; names ``flag`` as what to change.
    """
    site = web.TCPSite(runner, host, port, reuse_address=True, **options)  # type: ignore[arg-type]
    try:
        await site.start()
    except OSError as error:
        shown = f"{host or ''}:{port}"
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise ListenError(f"address {shown} {reason}; choose another with {flag}") from error
    bound = runner.addresses[0]
    return str(bound[0]), int(bound[1])
