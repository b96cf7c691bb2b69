"""Questions to a Prometheus over real HTTP, and all that one may get for an answer."""

import asyncio
import math
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kai.prometheus import PrometheusClient, PrometheusUnavailable, QueryRefused, Sample, UnreadableAnswer
from kai.prometheus import client as prometheus_client
from kai_local.processes.ports import free_ports

pytestmark = pytest.mark.integration

NOW = 1_800_000_000.25


@asynccontextmanager
async def answering(answer, *, method="POST", prefix=""):
    """The URL of an HTTP server that answers queries so."""
    application = web.Application()
    application.router.add_route(method, f"{prefix}/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}{prefix}"
    finally:
        await runner.cleanup()


def vector(*series):
    result = [{"metric": labels, "value": [NOW, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def asked(url, seconds=5.0):
    async with PrometheusClient.connect(url) as client:
        return await client.query("up", at=NOW, seconds=seconds)


async def test_a_vector_is_read_with_labels_and_values():
    async def answer(request):
        form = await request.post()
        assert dict(form) == {"query": "up", "time": "1800000000.250", "timeout": "5000ms"}
        return web.json_response(vector(({"queue_name": "a"}, "1.5"), ({}, "+Inf"), ({}, "NaN")))

    async with answering(answer) as url:
        first, second, third = await asked(url)
    assert first == Sample(labels={"queue_name": "a"}, value=1.5)
    assert math.isinf(second.value)
    assert math.isnan(third.value)


async def test_a_path_before_the_interface_and_a_password_are_passed_on():
    async def answer(request):
        assert request.headers["Authorization"].startswith("Basic ")
        return web.json_response(vector())

    async with answering(answer, prefix="/prometheus") as url:
        assert await asked(url.replace("://", "://user:secret@") + "/") == []


async def test_who_takes_no_post_is_asked_by_get():
    async def answer(request):
        assert request.query["query"] == "up"
        return web.json_response(vector())

    async with answering(answer, method="GET") as url:
        assert await asked(url) == []


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (500, "boom", PrometheusUnavailable, "answers 500: 'boom'"),
        (
            503,
            '{"status":"error","errorType":"timeout","error":"late"}',
            PrometheusUnavailable,
            "timeout: late",
        ),
        (429, "", PrometheusUnavailable, "answers 429: nothing"),
        (400, '{"status":"error","errorType":"bad_data","error":"no"}', QueryRefused, "400: bad_data: no"),
        (401, "who?", QueryRefused, "answers 401: 'who?'"),
        (200, "<html>", UnreadableAnswer, "does not answer as a Prometheus: '<html>'"),
        (200, "[" * 100_000, UnreadableAnswer, "does not answer as a Prometheus"),
        (200, '{"status":"success"}', UnreadableAnswer, "does not answer as a Prometheus"),
        (
            200,
            '{"status":"success","data":{"resultType":"matrix","result":[]}}',
            UnreadableAnswer,
            "answers with a matrix, not with a vector",
        ),
        (
            200,
            '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"much"]}]}}',
            UnreadableAnswer,
            "what is no sample",
        ),
        (
            200,
            '{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}',
            UnreadableAnswer,
            "what is no sample",
        ),
    ],
)
async def test_what_is_no_answer_is_told_by_its_kind(status, body, error, told):
    async def answer(request):
        return web.Response(status=status, text=body)

    async with answering(answer) as url:
        with pytest.raises(error) as raised:
            await asked(url)
    assert told in str(raised.value)
    assert url in str(raised.value)


async def test_an_answer_without_end_is_not_taken(monkeypatch):
    monkeypatch.setattr(prometheus_client, "LONGEST_ANSWER_BYTES", 2**20)

    async def answer(request):
        return web.Response(body=b" " * (2**20 + 1))

    async with answering(answer) as url:
        with pytest.raises(UnreadableAnswer, match="more than 1 MiB"):
            await asked(url)


async def test_who_is_slow_is_not_waited_for():
    over = asyncio.Event()

    async def answer(request):
        await over.wait()
        return web.json_response(vector())

    async with answering(answer) as url:
        with pytest.raises(PrometheusUnavailable, match=r"does not answer within 0\.05 s"):
            await asked(url, seconds=0.05)
        over.set()


async def test_who_is_not_there_is_told_without_the_password():
    port = free_ports(1)[0]
    with pytest.raises(PrometheusUnavailable) as raised:
        await asked(f"http://user:secret@127.0.0.1:{port}")
    assert str(port) in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "Connect call failed" in str(raised.value)


async def test_who_hangs_up_is_told():
    async def hang_up(reader, writer):
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PrometheusUnavailable, match="does not answer: "):
            await asked(f"http://127.0.0.1:{port}")
