"""Serves the page on loopback, over one cluster, to one browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web

from kai.grouping.errors import GroupingError
from kai.kube.client import KubeClient
from kai.kube.errors import Unauthorized
from kai.runtime.health import listen_on
from kai.simulate.changes import Change, ChangeRefused
from kai.snapshot.state import ClusterState
from kai_cli.connection import Target
from kai_cli.looking import history, installation
from kai_cli.looking.current import Current
from kai_cli.looking.door import ENTRY, Door
from kai_cli.looking.following import kinds_followed
from kai_cli.looking.knowledge import OwnKnowledge
from kai_cli.looking.rights import OwnRights, own_name, readable
from kai_cli.submitting import submitted
from kai_insight.http import asked, live_asked
from kai_insight.http.access import Caller
from kai_insight.http.endpoints import ENDPOINTS, OPENAPI, Endpoint
from kai_insight.http.guard import Guard, Handler
from kai_insight.http.live_answers import LiveAnswers
from kai_insight.http.live_endpoints import WHAT_IF_MANIFESTS
from kai_insight.http.live_routes import LiveRoutes
from kai_insight.http.openapi import document as description
from kai_insight.http.packing import Packer
from kai_insight.http.page import Page
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import encode
from kai_insight.live.copies import Copies
from kai_insight.live.live import Live

_log = structlog.get_logger(__name__)
_HOST: Final = "127.0.0.1"
#: Of a cluster with more pods there are no copies.
_MOST_PODS: Final = 200_000
#: Manifests that are tried are no larger.
MOST_BYTES: Final = 256 << 10
_FILE: Final = "FILE"


class PageServer:
    """Everything that the page asks for, by the rights of one kubeconfig."""

    def __init__(self, knowledge: OwnKnowledge, door: Door, answers: LiveAnswers) -> None:
        self._knowledge = knowledge
        self._door = door
        self._answers = answers
        self._packer = Packer()
        self._page = Page()

    def application(self) -> web.Application:
        """All paths, behind the door."""
        guard = Guard()
        application = web.Application(
            middlewares=[guard.middleware, self._door.middleware], client_max_size=MOST_BYTES
        )
        router = application.router
        router.add_get(ENTRY, self._door.enter, allow_head=False)
        LiveRoutes(self._answers, self._packer, self._who).add_to(application)
        router.add_post(WHAT_IF_MANIFESTS.path, self._try_manifests)
        for endpoint in ENDPOINTS:
            router.add_get(endpoint.path, self._past(endpoint), allow_head=False)
        router.add_get(OPENAPI, self._describe, allow_head=False)
        for path, name in self._page.paths().items():
            router.add_get(path, self._of_page(name), allow_head=False)
        if "/" not in self._page.paths():
            router.add_get("/", self._page.absent, allow_head=False)
        return application

    async def _who(self, request: web.Request) -> Caller:
        return self._door.caller(request)

    def _of_page(self, name: str) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            return self._page.answer(name, request)

        return handle

    def _past(self, endpoint: Endpoint) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            asked.bounded(request.rel_url.raw_query_string)
            question = asked.read(endpoint, request.query.items(), now=time.time())
            return await self._packer.json(request, await history.answer(self._knowledge, endpoint, question))

        return handle

    async def _describe(self, request: web.Request) -> web.Response:
        return await self._packer.json(request, encode(description()), version=OPENAPI)

    async def _try_manifests(self, request: web.Request) -> web.Response:
        """What would follow if manifests were submitted, which are the body of the question."""
        question = live_asked.read(WHAT_IF_MANIFESTS, request.query.items())
        text = await _text_of(request)
        namespace = question.text("namespace") or "default"

        def work(state: ClusterState, now: float) -> list[Change]:
            try:
                return submitted(state, text, now=now, namespace=namespace, files=[_FILE]).changes
            except GroupingError as error:
                raise ChangeRefused(str(error)) from error

        caller = self._door.caller(request)
        return await self._packer.json(request, await self._answers.followed(question, caller, work))


async def _followed(current: Current, live: Live) -> None:
    """Until cancelled, or the API server knows us no more, which is told to whoever looks."""
    try:
        await current.run()
    except* Unauthorized:
        live.away = "the API server takes the credentials of the kubeconfig no more; start kai ui again"
    except* Exception as failed:  # noqa: BLE001 (whoever looks is told)
        live.away = f"the cluster is followed no more ({failed.exceptions[0]}); start kai ui again"
        _log.exception("the cluster is followed no more")


async def _text_of(request: web.Request) -> str:
    data = bytearray()
    async for part in request.content.iter_any():
        data += part
        if len(data) > MOST_BYTES:
            raise Problem(Trouble.BAD_PARAMETER, f"manifests of at most {MOST_BYTES} bytes are tried")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Problem(Trouble.BAD_PARAMETER, "the manifests are no text in UTF-8") from error


@asynccontextmanager
async def serving(target: Target, client: KubeClient, *, port: int) -> AsyncIterator[str]:
    """Serve while the block runs; yields the address that lets one browser in.

    Raises:
        ListenError: the port is taken.
        KubeError: the API server cannot be asked.
    """
    found = await readable(client, kinds_followed(client))
    live = Live()
    installed = await installation.read(client, namespace=target.namespace)
    current = Current(client, live, found, installed, namespace=target.namespace)
    knowledge = OwnKnowledge(target, client, current)
    door, copies = Door(await own_name(client)), Copies(most_pods=_MOST_PODS)
    answers = LiveAnswers(
        live,
        OwnRights(client, found),
        knowledge=knowledge,
        copies=copies,
        source="kubeconfig",
        history=await knowledge.has_history(),
    )
    runner = web.AppRunner(
        PageServer(knowledge, door, answers).application(),
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    task = asyncio.create_task(_followed(current, live), name="follow the cluster")
    try:
        door.open_at(*await listen_on(runner, _HOST, port, flag="--port"))
        yield door.address
    finally:
        await runner.cleanup()
        task.cancel()
        await asyncio.wait([task])
        copies.close()
