"""Past use from what answers as a Prometheus does, or does not."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kai.config import UsageDatabase
from kai.prometheus import PrometheusClient
from kai_local.processes.ports import free_ports
from kai_scheduler.usage_sources import PrometheusUsage, UsageUnavailable

pytestmark = pytest.mark.integration

NOW = 1_800_000_000.0
#: What queries about a resource have in them.
ALLOCATION = {"cpu": "allocated_cpu_cores", "memory": "allocated_memory_bytes", "gpu": "allocated_gpus"}
CAPACITY = {"cpu": 'resource="cpu"', "memory": 'resource="memory"', "gpu": 'resource="nvidia_com_gpu"'}


class Prometheus:
    """Answers queries with what it was told of each resource."""

    def __init__(self, *, used=None, capacity=None):
        self.used = used or {}
        self.capacity = {"cpu": "60", "memory": "60", "gpu": "60"} if capacity is None else capacity
        self.asked = []

    async def answer(self, request):
        form = await request.post()
        self.asked.append(form)
        return web.json_response(vector(*self.series(form["query"])))

    def series(self, query):
        for resource in ALLOCATION:
            if ALLOCATION[resource] in query:
                return self.used.get(resource, ())
            if CAPACITY[resource] in query and resource in self.capacity:
                return [({}, self.capacity[resource])]
        return ()


def vector(*series):
    result = [{"metric": labels, "value": [NOW, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def of(queue, value):
    return ({"queue_name": queue}, value)


@asynccontextmanager
async def usage(answer, **usage_params):
    """A source that asks an HTTP server which answers so."""
    application = web.Application()
    application.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    params = UsageDatabase.read({"clientType": "prometheus", "usageParams": usage_params}).params
    try:
        async with PrometheusClient.connect(f"http://{host}:{port}") as client:
            yield PrometheusUsage(client, params)
    finally:
        await runner.cleanup()


async def test_each_queue_used_its_part_of_what_the_nodes_offered():
    prometheus = Prometheus(used={"gpu": [of("a", "30"), of("b", "15")], "cpu": [of("a", "6")]})
    async with usage(prometheus.answer, windowSize="1h") as source:
        found = await source.read(now=NOW)
    assert found.by_queue == {"a": (0.1, 0.0, 0.5), "b": (0.0, 0.0, 0.25)}
    assert found.notes == ()


async def test_all_queries_of_a_read_are_as_of_one_moment():
    prometheus = Prometheus()
    async with usage(prometheus.answer, halfLifePeriod="10m") as source:
        await source.read(now=NOW)
    assert len(prometheus.asked) == 6
    assert {form["time"] for form in prometheus.asked} == {f"{NOW:.3f}"}


async def test_a_window_that_has_just_begun_has_no_use_and_nobody_is_asked():
    prometheus = Prometheus()
    async with usage(
        prometheus.answer, windowType="tumbling", tumblingWindowStartTime="2027-01-15T08:00:00Z"
    ) as source:
        assert (await source.read(now=NOW)).by_queue == {}
    assert prometheus.asked == []


async def test_where_nobody_tells_what_queues_hold_they_used_nothing_and_the_remedy_is_told():
    async with usage(Prometheus().answer) as source:
        found = await source.read(now=NOW)
    assert found.by_queue == {}
    (note,) = found.notes
    assert note.endswith("has no series of what queues hold: let it scrape the queue-controller")


async def test_series_without_a_queue_count_for_nobody():
    async with usage(Prometheus(used={"gpu": [({}, "30"), of("a", "30")]}).answer) as source:
        assert (await source.read(now=NOW)).by_queue == {"a": (0.0, 0.0, 0.5)}


async def test_a_value_that_is_no_number_leaves_out_one_queue():
    async with usage(Prometheus(used={"gpu": [of("a", "NaN"), of("b", "30")]}).answer) as source:
        found = await source.read(now=NOW)
    assert found.by_queue == {"b": (0.0, 0.0, 0.5)}
    assert found.notes == ("queue 'a' used nan of GPUs: it counts as unused",)


async def test_a_cluster_without_gpus_is_read_all_the_same():
    prometheus = Prometheus(used={"cpu": [of("a", "30")]}, capacity={"cpu": "60", "memory": "60"})
    async with usage(prometheus.answer) as source:
        assert (await source.read(now=NOW)).by_queue == {"a": (0.5, 0.0, 0.0)}


async def test_where_nobody_tells_what_nodes_offer_the_remedy_is_told():
    async with usage(Prometheus(capacity={}).answer) as source:
        with pytest.raises(UsageUnavailable, match="let it scrape kube-state-metrics, or name other metrics"):
            await source.read(now=NOW)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        pytest.param(500, "boom", "answers 500: 'boom'", id="500"),
        pytest.param(
            400,
            '{"status":"error","errorType":"bad_data","error":"parse error"}',
            "answers 400: bad_data: parse error",
            id="a metric that is no expression",
        ),
        pytest.param(200, "<html>", "does not answer as a Prometheus", id="nonsense"),
        pytest.param(200, "", "does not answer as a Prometheus: nothing", id="empty"),
    ],
)
async def test_what_is_no_answer_is_told(status, body, told):
    async def answer(request):
        return web.Response(status=status, text=body)

    async with usage(answer) as source:
        with pytest.raises(UsageUnavailable) as raised:
            await source.read(now=NOW)
    assert told in str(raised.value)


async def test_all_queries_together_may_take_so_long_and_no_longer():
    over = asyncio.Event()

    async def answer(request):
        await over.wait()
        return web.json_response(vector())

    async with usage(answer, extraParams={"usageQueryTimeout": "50ms"}) as source:
        with pytest.raises(UsageUnavailable, match=r"does not answer within 0\.05 s"):
            await source.read(now=NOW)
        over.set()


async def test_who_is_not_there_is_told():
    port = free_ports(1)[0]
    params = UsageDatabase.read({}).params
    async with PrometheusClient.connect(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(UsageUnavailable, match=f"Prometheus at http://127.0.0.1:{port} does not answer"):
            await PrometheusUsage(client, params).read(now=NOW)
