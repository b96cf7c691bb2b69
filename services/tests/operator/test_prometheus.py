"""Whether a Prometheus of the user's own answers."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from deadlines import eventually
from kai_operator.product import Endpoint
from kai_operator.prometheus import PrometheusMonitor, address, ask

pytestmark = pytest.mark.integration


class Server:
    """Answers with what is said; None: not at all."""

    def __init__(self):
        self.status, self.asked = 200, []

    async def answer(self, request):
        self.asked.append(request.path)
        if self.status is None:
            await asyncio.Event().wait()
        return web.Response(status=self.status)


@pytest.fixture
async def server():
    server = Server()
    app = web.Application()
    app.router.add_get("/{tail:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


def an_endpoint(server, **options):
    return Endpoint(url=server.url, **{"interval": 0.05, "timeout": 30.0, "retries": 0, **options})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("prometheus:9090", "http://prometheus:9090"),
        ("https://prometheus/x/", "https://prometheus/x"),
    ],
)
def test_an_address_without_a_scheme_is_one_of_http(url, expected):
    assert address(url) == expected


@pytest.mark.parametrize(
    ("status", "said"),
    [(200, None), (503, "answers with status 503"), (None, "does not answer within 0.1 s")],
)
async def test_what_is_wrong_is_told(server, status, said):
    server.status = status
    async with aiohttp.ClientSession() as session:
        found = await ask(session, an_endpoint(server, timeout=30.0 if status else 0.1))
    assert found == (said and f"http://{server.url} {said}")


async def test_one_that_cannot_be_reached_is_told():
    async with aiohttp.ClientSession() as session:
        found = await ask(session, Endpoint(url="127.0.0.1:1", retries=0))
    assert found.startswith("http://127.0.0.1:1 cannot be reached")


@pytest.mark.parametrize(
    "url", ["http://kai:word@127.0.0.1:1/x", "kai:word@127.0.0.1:1", "http://kai:word@127.0.0.1:none"]
)
async def test_nobody_is_told_a_password(url):
    """Conditions and logs are read by more people than who may know it."""
    async with aiohttp.ClientSession() as session:
        found = await ask(session, Endpoint(url=url, retries=0))
    assert "cannot be reached" in found
    assert "word" not in found


async def test_it_is_tried_again_before_it_counts_as_gone(server):
    server.status = 500
    async with aiohttp.ClientSession() as session:
        await ask(session, an_endpoint(server, retries=1))
    assert server.asked == ["/api/v1/status/config"] * 2


async def test_it_is_told_when_it_goes_and_when_it_is_back(server):
    changes = []
    monitor = PrometheusMonitor(lambda: changes.append(monitor.problem))
    watching = asyncio.create_task(monitor.run())
    assert not monitor.follows
    monitor.follow(an_endpoint(server))
    await eventually(lambda: len(server.asked) > 1)
    assert monitor.follows
    assert not changes
    server.status = 500
    await eventually(lambda: changes)
    server.status = 200
    await eventually(lambda: len(changes) == 2)
    assert changes == [f"http://{server.url} answers with status 500", None]
    monitor.follow(None)
    assert not monitor.follows
    watching.cancel()
    await asyncio.wait([watching])
