"""Serves the history over HTTP, with TLS or on loopback. All that comes from outside has bounds."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from kai.history.databases import Database
from kai.kube.client import KubeClient
from kai.runtime.health import listen_on, split_address
from kai.tls import CertificateFiles, keep_loaded, server_context, until_loaded
from kai_insight.http import asked, openapi
from kai_insight.http.access import REVIEW_SECONDS, Access, Caller
from kai_insight.http.answers import Answers
from kai_insight.http.endpoints import ENDPOINTS, OPENAPI, Endpoint
from kai_insight.http.metrics import ELSEWHERE, HttpMetrics
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import encode
from kai_insight.http.store import AskedStore

#: A question that takes longer is not answered.
DEADLINE_SECONDS: Final = 20.0
#: Questions that are under way, waiting for their turn included.
MOST_AT_ONCE: Final = 64
#: Connections that nobody uses are closed after so many seconds.
_IDLE_SECONDS: Final = 30.0
#: Bytes of a line of the head of a request: tokens of some issuers are long.
_LONGEST_LINE: Final = 16 * 2**10
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'",
    "X-Content-Type-Options": "nosniff",
}
#: As RFC 6750 writes it.
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)

_log = structlog.get_logger(__name__)


class HttpServer:
    """Answers questions about one database. Give :meth:`run` to a task group."""

    def __init__(
        self,
        database: Database,
        client: KubeClient,
        *,
        listen: str,
        certificates: CertificateFiles | None,
        registry: CollectorRegistry,
        patience: float = REVIEW_SECONDS,
        deadline: float = DEADLINE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``patience`` and ``deadline``: seconds that a review and a whole answer may take."""
        self.started = asyncio.Event()
        #: ``(host, port)`` that was bound, once started.
        self.address = ("", 0)
        self._listen = listen
        self._certificates = certificates
        self._deadline = deadline
        self._now = now
        self._store = AskedStore()
        self._access = Access(client, patience=patience)
        self._answers = Answers(database, self._store, self._access)
        paths = (*(each.path for each in ENDPOINTS), OPENAPI)
        self._metrics = HttpMetrics(registry, paths=(*paths, ELSEWHERE))
        self._description = encode(openapi.document())
        self._under_way = 0

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ListenError: the address cannot be bound.
        """
        host, port = split_address(self._listen)
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )
        await runner.setup()
        try:
            if self._certificates is None:
                self.address = await listen_on(runner, host, port, flag="--http-listen")
                self._began()
                await asyncio.Event().wait()
            else:
                context = server_context()
                loaded = await until_loaded(context, self._certificates, who="http")
                self.address = await listen_on(runner, host, port, flag="--http-listen", ssl_context=context)
                self._began()
                await keep_loaded(context, self._certificates, loaded)
        finally:
            await runner.cleanup()
            self._store.close()

    def _began(self) -> None:
        self.started.set()
        _log.info("history is served over HTTP", address=f"{self.address[0]}:{self.address[1]}")

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=1)
        for endpoint in ENDPOINTS:
            application.router.add_get(endpoint.path, self._handler(endpoint), allow_head=False)
        application.router.add_get(OPENAPI, self._describe, allow_head=False)
        return application

    # --- answers -------------------------------------------------------------------------------------
    def _handler(self, endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            caller = await self._caller(request)
            now = self._now()
            asked.bounded(request.rel_url.raw_query_string)
            question = asked.read(endpoint, request.query.items(), now=now)
            return _json(await self._answers.answer(endpoint, question, caller, now=now))

        return handle

    async def _describe(self, request: web.Request) -> web.Response:
        """Not without a token either: an answer must not cost more than the question of a stranger."""
        await self._caller(request)
        asked.bounded(request.rel_url.raw_query_string)
        asked.none(request.query.items())
        return _json(self._description)

    async def _caller(self, request: web.Request) -> Caller:
        """Who asks.

        Raises:
            Problem: nobody who is known (401), or the API server does not say (503).
        """
        said = request.headers.getall("Authorization", [])
        token = _BEARER.fullmatch(said[0].strip()) if len(said) == 1 else None
        if token is None:
            raise Problem(
                Trouble.UNAUTHENTICATED,
                "say who you are: send Authorization: Bearer TOKEN, once; the API server has to know it",
            )
        return await self._access.caller(token[1])

    # --- around each of them -------------------------------------------------------------------------
    @property
    def _guarded(self) -> Callable[..., Awaitable[web.StreamResponse]]:
        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            began = time.monotonic()
            response = await self._answered(request, handler)
            response.headers.update(_HEADERS)
            resource = request.match_info.route.resource
            path = resource.canonical if resource is not None else ELSEWHERE
            self._metrics.answered(path, response.status, seconds=time.monotonic() - began)
            return response

        return guarded

    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._under_way >= MOST_AT_ONCE:
            return _told(Problem(Trouble.BUSY, f"{MOST_AT_ONCE} questions are under way; ask again later"))
        self._under_way += 1
        try:
            async with asyncio.timeout(self._deadline):
                return await handler(request)
        except Problem as problem:
            return _told(problem)
        except web.HTTPMethodNotAllowed:
            return _told(Problem(Trouble.METHOD_NOT_ALLOWED, "this is only read: use GET"))
        except web.HTTPNotFound:
            return _told(Problem(Trouble.NOT_FOUND, f"there is nothing here; {OPENAPI} says what there is"))
        except TimeoutError:
            return _told(
                Problem(
                    Trouble.TOO_SLOW,
                    f"no answer in {self._deadline:g} s; ask about less time, or later",
                )
            )
        except Exception:  # noqa: BLE001 (whoever asks is told, and the others are answered)
            _log.exception("a question over HTTP failed", path=request.path[:100])
            return _told(Problem(Trouble.INTERNAL, "this failed; the log of insight says why"))
        finally:
            self._under_way -= 1


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _told(problem: Problem) -> web.Response:
    response = _json(problem.body)
    response.set_status(problem.trouble.status)
    response.headers.update(problem.headers)
    return response
