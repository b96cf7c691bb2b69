"""A scripted HTTP server that answers as an API server would, or as one in trouble."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import yaml
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def json_answer(body, *, status=200, headers=None) -> Answer:
    async def answer(request):
        return web.json_response(body, status=status, headers=headers)

    return answer


def refusal(status, *, reason="", message="no", headers=None) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return json_answer(body, status=status, headers=headers)


def stream(*events, hold=False, cut=False) -> Answer:
    """Events as JSON lines; then the end, silence (`hold`), or a broken connection (`cut`)."""

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            await response.write(line)
        if hold:
            await asyncio.Event().wait()
        if cut:
            request.transport.abort()
        return response

    return answer


def dropped() -> Answer:
    async def answer(request):
        request.transport.abort()
        return web.Response()

    return answer


@dataclass
class Recorded:
    method: str
    path: str
    query: dict
    body: object
    headers: dict


@dataclass
class ScriptedServer:
    """Plays the answers scripted for (method, path) one after the other; the last one is repeated.

    A list of one object, by which is asked how far the server is, has no place in these scripts: it is
    answered with ``newest``, and kept apart.
    """

    scripts: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    comparisons: list = field(default_factory=list)
    newest: str = str(2**40)
    url: str = ""
    #: Ends all connections; whoever comes afterwards is refused.
    stop: Callable[[], Awaitable[None]] | None = None

    def script(self, method, path, *answers):
        self.scripts[method, path] = list(answers)

    def received(self, method, path=None):
        return [r for r in self.requests if r.method == method and path in (None, r.path)]

    async def handle(self, request):
        raw = await request.read()
        body = json.loads(raw) if raw else None
        recorded = Recorded(request.method, request.path, dict(request.query), body, dict(request.headers))
        if recorded.query.get("limit") == "1":
            self.comparisons.append(recorded)
            metadata = {"resourceVersion": self.newest, "continue": "more"}
            return await json_answer({"items": [], "metadata": metadata})(request)
        self.requests.append(recorded)
        answers = self.scripts.get((request.method, request.path))
        if not answers:
            return await refusal(404, reason="NotFound", message="not scripted")(request)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return await answer(request)

    def kubeconfig(self, directory, **user):
        return write_kubeconfig(directory / "kubeconfig", self.url, **user)


def write_kubeconfig(path, server, **user):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": user or {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


@asynccontextmanager
async def serving():
    server = ScriptedServer()
    server.script("GET", "/version", json_answer({"gitVersion": "v1.36.0"}))
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url, server.stop = f"http://127.0.0.1:{runner.addresses[0][1]}", runner.cleanup
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
async def server():
    async with serving() as server:
        yield server


@pytest.fixture
def answers():
    """The kinds of answers that can be scripted."""

    class Answers:
        json = staticmethod(json_answer)
        refusal = staticmethod(refusal)
        stream = staticmethod(stream)
        dropped = staticmethod(dropped)

    return Answers


@pytest.fixture
async def client(server, tmp_path):
    from kai.kube.client import KubeClient

    async with KubeClient.connect(server.kubeconfig(tmp_path)) as client:
        yield client
