"""The paths of questions about the cluster as it is now, whoever serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

from aiohttp import web

from kai_insight.http import asked, live_asked
from kai_insight.http.access import Caller
from kai_insight.http.guard import Handler
from kai_insight.http.live_answers import LiveAnswers
from kai_insight.http.live_endpoints import CHANGES, CLUSTER, LIVE_ENDPOINTS, VERSION, LiveEndpoint
from kai_insight.http.packing import Packer
from kai_insight.http.passing import Passing
from kai_insight.http.streams import EventStream, Streams


class LiveRoutes:
    """``caller`` says who asks, or raises a Problem."""

    def __init__(
        self,
        answers: LiveAnswers,
        packer: Packer,
        caller: Callable[[web.Request], Awaitable[Caller]],
        *,
        place: Callable[[str], AbstractContextManager[None]] = lambda asker: nullcontext(),
        passing: Passing | None = None,
    ) -> None:
        """``place`` is held for who asks while he is answered; ``passing`` hands on what is asked while this
        process knows nothing of the cluster.
        """
        self._answers = answers
        self._packer = packer
        self._caller = caller
        self._place = place
        self._passing = passing
        self._streams = Streams()

    def add_to(self, application: web.Application) -> None:
        """Let an application have these paths."""
        for endpoint in LIVE_ENDPOINTS:
            application.router.add_get(endpoint.path, self._handler(endpoint), allow_head=False)

    def _handler(self, endpoint: LiveEndpoint) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            caller = await self._caller(request)
            with self._place(caller.asker):
                return await self._answered(endpoint, request, caller)

        return handle

    async def _answered(
        self, endpoint: LiveEndpoint, request: web.Request, caller: Caller
    ) -> web.StreamResponse:
        asked.bounded(request.rel_url.raw_query_string, endpoint.parameters)
        question = live_asked.read(endpoint, request.query.items())
        if self._passing is not None and not self._answers.knows:
            return await self._passing.pass_on(request, streams=endpoint.streams)
        if endpoint is CLUSTER:
            seen = await self._answers.frame(question, caller)
            return await self._packer.json(request, seen.data, version=seen.version)
        if endpoint is CHANGES:
            return await self._follow(request, question, caller)
        return await self._packer.json(request, await self._answers.answer(endpoint, question, caller))

    async def _follow(
        self, request: web.Request, question: live_asked.LiveAsked, caller: Caller
    ) -> EventStream:
        self._streams.check(caller)
        shard, sight = await self._answers.entry(CHANGES, question, caller)

        async def still() -> bool:
            """With the token of the beginning, which may have ended since."""
            known = await self._caller(request)
            return (await self._answers.entry(CHANGES, question, known))[1] == sight

        changes = self._answers.changes(shard, sight, question.text(VERSION.name))
        return EventStream(self._streams.place(caller), changes, still)
