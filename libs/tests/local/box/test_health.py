"""What `kai local status` asks the services themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from kai_local.box.health import Health, ask, told_by
from kai_local.processes.records import ProcessRecord

NOT_READY = "[+]api ok\n[-]lease: nobody renews it\n[!]set aside: Pod team/broken\nnot ready\n"


@pytest.mark.parametrize(
    ("status", "text", "health"),
    [
        (200, "[+]api ok\nready\n", Health(ready=True)),
        (
            200,
            "[+]api ok\n[!]cut off: snapshot 7\nready\n",
            Health(ready=True, notes=("cut off: snapshot 7",)),
        ),
        (
            503,
            NOT_READY,
            Health(ready=False, notes=("lease: nobody renews it", "set aside: Pod team/broken")),
        ),
        (0, "", Health(ready=False, notes=("it does not answer",))),
    ],
)
def test_what_is_wrong_and_what_people_should_know_is_told(status: int, text: str, health: Health) -> None:
    assert told_by(status, text) == health


def test_who_serves_no_health_or_does_not_run_is_not_asked() -> None:
    assert ask([ProcessRecord("redis", "ready", pid=1), ProcessRecord("binder", "crashed", health="x")]) == {}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async def readyz(request: web.Request) -> web.Response:
        assert "verbose" in request.query
        return web.Response(status=503, text=NOT_READY + "x" * 200_000)

    app = web.Application()
    app.add_routes([web.get("/readyz", readyz)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/readyz"
    await runner.cleanup()


@pytest.mark.integration
async def test_an_answer_is_read_to_its_end(url: str) -> None:
    from kai_local.processes.probes import http_answer, http_status

    status, text = await http_answer(f"{url}?verbose")
    assert (status, text) == (503, NOT_READY + "x" * 200_000)
    assert await http_status(f"{url}?verbose") == 503
