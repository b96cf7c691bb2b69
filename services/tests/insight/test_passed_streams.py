"""Changes that a leader tells, as they go through the replica that was asked for them."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from deadlines import within
from kai.kube.leases import Lease, LeaseSpec
from kai.model import names
from kai.model.objects import ObjectMeta
from kai_insight.http.passing import Passing
from kai_insight.http.streams import MOST_STREAMS, Streamed


class Leases:
    """An API server that knows who leads."""

    async def get(self, resource, name, **more):
        told = {names.EPOCH_ANNOTATION: "1", names.ENDPOINT_ANNOTATION: "127.0.0.1:9091"}
        meta = ObjectMeta(name=name, annotations=told)
        return Lease(metadata=meta, spec=LeaseSpec(holder_identity="leads"))


@asynccontextmanager
async def serving(handler):
    """A server of one handler; gives its port."""
    application = web.Application()
    application.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def handed_on(leads, **options):
    """Somebody who asks a replica that hands on to who ``leads``."""
    async with serving(leads) as port:
        passing = Passing(
            Leases(), lease="kai-insight", namespace="kai", listen=f"127.0.0.1:{port}", tls=None, **options
        )

        async def handle(request):
            answer = await passing.pass_on(request, streams=request.path == "/changes")
            if isinstance(answer, Streamed):
                await answer.send(request)
            return answer

        async with serving(handle) as asked:
            connections = aiohttp.TCPConnector(limit=0)
            root = f"http://127.0.0.1:{asked}"
            async with aiohttp.ClientSession(root, connector=connections) as session:
                try:
                    yield session
                finally:
                    await passing.close()


async def leads(request):
    """Tells one thing, and nothing more."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(b"event: change\n")
    if request.path == "/changes":
        await asyncio.Event().wait()
    return answer


async def within_patience(what):
    async with within("the stream ends"):
        return await what


async def test_who_follows_keeps_nobody_from_asking():
    async with handed_on(leads) as session, AsyncExitStack() as stack:
        for _ in range(MOST_STREAMS):
            got = await stack.enter_async_context(session.get("/changes"))
            assert got.status == 200
        async with within("a question is answered"), session.get("/question") as answer:
            assert answer.status == 200


async def test_who_follows_a_leader_that_has_fallen_silent_is_told_to_ask_again():
    async with handed_on(leads, silence=0.2) as session, session.get("/changes") as got:
        with pytest.raises(aiohttp.ClientError):
            await within_patience(got.read())
