"""Serves page, history and the cluster as it is over HTTP, with TLS or on loopback."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable
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
from kai_insight.http.guard import DEADLINE_SECONDS, Guard, Handler
from kai_insight.http.live_answers import LiveAnswers
from kai_insight.http.live_endpoints import LIVE_ENDPOINTS
from kai_insight.http.live_routes import LiveRoutes
from kai_insight.http.metrics import ELSEWHERE, HttpMetrics
from kai_insight.http.packing import Packer
from kai_insight.http.page import Page
from kai_insight.http.passing import Passing
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import encode
from kai_insight.http.store import AskedStore
from kai_insight.live.copies import Copies
from kai_insight.live.knowledge import Knowledge
from kai_insight.live.live import Live

#: Connections that nobody uses are closed after so many seconds.
_IDLE_SECONDS: Final = 30.0
#: Bytes of a line of the head of a request: tokens of some issuers are long.
_LONGEST_LINE: Final = 16 * 2**10
#: The description does not change while a process runs.
_DESCRIPTION: Final = "openapi"
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
        live: Live,
        knowledge: Knowledge,
        answer_pods: int,
        passing: Passing | None = None,
        page: Page | None = None,
        patience: float = REVIEW_SECONDS,
        deadline: float = DEADLINE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        """What is asked about the past is answered from the database, and what is now by ``live``.

        Args:
            knowledge: what is known beside the cluster.
            answer_pods: of a cluster with more of them there are no copies to try questions on.
            passing: hands on what is asked about the cluster while another replica leads.
            page: instead of that of the package.
            patience: seconds that a review may take.
            deadline: seconds that a whole answer may take.
        """
        self.started = asyncio.Event()
        #: ``(host, port)`` that was bound, once started.
        self.address = ("", 0)
        self._listen = listen
        self._certificates = certificates
        self._now = now
        self._store = AskedStore()
        self._access = Access(client, patience=patience)
        self._answers = Answers(database, self._store, self._access)
        self._page = page or Page()
        paths = [each.path for each in ENDPOINTS] + [each.path for each in LIVE_ENDPOINTS]
        paths += [OPENAPI, "/", *self._page.paths(), ELSEWHERE]
        metrics = HttpMetrics(registry, paths=dict.fromkeys(paths))
        self._guard = Guard(metrics, deadline=deadline)
        self._packer = Packer()
        self._copies = Copies(most_pods=answer_pods)
        answered = LiveAnswers(
            live,
            self._access,
            knowledge=knowledge,
            copies=self._copies,
            source="insight",
            history=True,
        )
        self._passing = passing
        self._live = LiveRoutes(
            answered, self._packer, self._caller, place=self._guard.place, passing=passing
        )

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
            handler_cancellation=True,  # who is gone takes no place among those who follow changes
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
            self._copies.close()
            if self._passing is not None:
                await self._passing.close()

    def _began(self) -> None:
        self.started.set()
        _log.info("history is served over HTTP", address=f"{self.address[0]}:{self.address[1]}")

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard.middleware], client_max_size=1)
        for endpoint in ENDPOINTS:
            application.router.add_get(endpoint.path, self._handler(endpoint), allow_head=False)
        application.router.add_get(OPENAPI, self._describe, allow_head=False)
        self._live.add_to(application)
        for path, name in self._page.paths().items():
            application.router.add_get(path, self._of_page(name), allow_head=False)
        if "/" not in self._page.paths():
            application.router.add_get("/", self._page.absent, allow_head=False)
        return application

    # --- answers -------------------------------------------------------------------------------------
    def _handler(self, endpoint: Endpoint) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            caller = await self._caller(request)
            with self._guard.place(caller.asker):
                now = self._now()
                asked.bounded(request.rel_url.raw_query_string)
                question = asked.read(endpoint, request.query.items(), now=now)
                return await self._packer.json(
                    request, await self._answers.answer(endpoint, question, caller, now=now)
                )

        return handle

    def _of_page(self, name: str) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            return self._page.answer(name, request)

        return handle

    async def _describe(self, request: web.Request) -> web.Response:
        """Not without a token either: an answer must not cost more than the question of a stranger."""
        caller = await self._caller(request)
        with self._guard.place(caller.asker):
            asked.bounded(request.rel_url.raw_query_string)
            asked.none(request.query.items())
            return await self._packer.json(request, _description(), version=_DESCRIPTION)

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


@functools.cache
def _description() -> bytes:
    """Made when it is asked for first: most processes never are, and would start later for it."""
    return encode(openapi.document())
