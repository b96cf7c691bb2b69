"""What fails while a debugging question is answered is told to who asked, and to nobody else."""

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from kai.config import PluginOption, SchedulerConfig
from kai.kube.resources import NODES
from kai_scheduler import debug_server
from kai_scheduler.debug_server import DebugServer
from kai_scheduler.troubles import Troubles

pytestmark = pytest.mark.integration


def config(*plugins):
    return SchedulerConfig(plugins=tuple(map(PluginOption, plugins)))


async def answered(server, path):
    """Status and text of one answer of a server that is up for it alone."""
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.port}{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            return answer.status, await answer.text()
    finally:
        await server.close()


class FailingCore:
    """Fails over every question."""

    class Engine:
        job_order = None

    engine = Engine()

    async def question(self, question):
        raise RecursionError("too deep")


async def test_a_question_that_fails_is_answered_with_why():
    troubles = Troubles(Counter("cut_off_total", "", ("what",), registry=CollectorRegistry()))
    server = DebugServer(None, FailingCore(), troubles, config=config("reflectjoborder"), params={}, port=0)
    status, told = await answered(server, "/get-job-order")
    assert status == 500
    assert "RecursionError: too deep" in told
    assert "/get-job-order failed 1 times" in troubles.summary()


async def test_the_object_that_a_snapshot_file_fails_over_is_named(monkeypatch):
    troubles = Troubles(Counter("cut_off_total", "", ("what",), registry=CollectorRegistry()))
    server = DebugServer(None, FailingCore(), troubles, config=config("snapshot"), params={}, port=0)

    async def listed(res):
        names = ("even", "odd") if res is NODES else ()
        return [{"metadata": {"name": name}} for name in names]

    def shortened(kind, obj):
        if obj["metadata"]["name"] == "odd":
            raise KeyError("spec")
        return obj

    monkeypatch.setattr(server, "_list", listed)
    monkeypatch.setattr(debug_server, "without_content", shortened)
    status, told = await answered(server, "/get-snapshot")
    assert status == 500
    assert "Node odd: KeyError" in told
    assert "last with Node odd: KeyError" in troubles.summary()


@pytest.mark.parametrize(
    ("path", "plugin"), [("/get-snapshot", "snapshot"), ("/get-job-order", "reflectjoborder")]
)
async def test_a_question_whose_plugin_is_off_is_not_answered(path, plugin):
    troubles = Troubles(Counter("cut_off_total", "", ("what",), registry=CollectorRegistry()))
    others = config(*({"snapshot", "reflectjoborder"} - {plugin}))
    server = DebugServer(None, FailingCore(), troubles, config=others, params={}, port=0)
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.port}{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            assert answer.status == 404
            assert f"plugin '{plugin}' is off; name it in" in await answer.text()
    finally:
        await server.close()
