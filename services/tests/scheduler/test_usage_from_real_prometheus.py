"""Past use as a real Prometheus sums it, compared with what our own sums of the same past say."""

import time

import pytest

from deadlines import eventually
from e2e import prometheus
from kai.config import UsageDatabase
from kai.engine.usage import used_shares
from kai.prometheus import PrometheusClient
from kai.session.usage_history import Series
from kai_scheduler.usage_sources import PrometheusUsage, UsageUnavailable

pytestmark = pytest.mark.integration

STEP, HOUR = 60, 3600
#: A whole number of minutes, three hours ago.
END = int(time.time() // STEP) * STEP - 3 * HOUR
START = END - 4 * HOUR
#: GPUs of each hour, the oldest first.
HELD = {"a": (8, 8, 0, 0), "b": (0, 0, 4, 8), "c": (1, 1, 1, 1)}
CAPACITY = (16, 16, 8, 8)
#: What one sample is worth in an hour: Prometheus takes the one at the very beginning of a window, too.
ONE_SAMPLE = 1 / 60
PARAMS = {
    "sliding": {"windowSize": "3h"},
    "sliding and decaying": {"windowSize": "4h", "halfLifePeriod": "45m"},
    "tumbling": {
        "windowType": "tumbling",
        "windowSize": "5h",
        "tumblingWindowStartTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(END - 2 * HOUR)),
    },
    "tumbling and decaying": {
        "windowType": "tumbling",
        "windowSize": "5h",
        "halfLifePeriod": "20m",
        "tumblingWindowStartTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(END - 3 * HOUR)),
    },
    "cron": {"windowType": "cron", "cronString": time.strftime("%M %H * * *", time.gmtime(END - HOUR))},
}


def samples():
    """Two queue-controllers tell the same at times, and take turns at others."""
    lines = ["# TYPE kai_queue_allocated_gpus gauge"]
    for queue, held in HELD.items():
        for pod, hours in (("first", (0, 1, 2)), ("second", (2, 3))):
            lines += [
                f'kai_queue_allocated_gpus{{queue_name="{queue}",pod="{pod}"}} {held[hour]} {at}'
                for hour in hours
                for at in minutes(hour)
            ]
    lines.append("# TYPE kube_node_status_capacity gauge")
    for node in ("n1", "n2"):
        lines += [
            f'kube_node_status_capacity{{node="{node}",resource="nvidia_com_gpu"}} {CAPACITY[hour] / 2} {at}'
            for hour in range(4)
            for at in minutes(hour)
        ]
    return "".join(f"{line}\n" for line in lines)


def minutes(hour):
    first = START + hour * HOUR
    return range(first + STEP, first + HOUR + STEP, STEP)


@pytest.fixture(scope="module")
def running(prometheus_program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    prometheus.backfill(folder, samples())
    with prometheus.running(folder) as running:
        yield running


@pytest.fixture
async def source(running):
    """Makes sources with these parameters: ``source(windowSize="1h")``."""
    await eventually(running.ready)
    async with PrometheusClient.connect(running.url) as client:

        def make(**usage_params):
            return PrometheusUsage(client, params(**usage_params))

        yield make


def params(**usage_params):
    return UsageDatabase.read({"usageParams": usage_params}).params


def buckets(held):
    """The same past in buckets of a minute."""
    return Series.of(
        {at - STEP: (0.0, 0.0, float(held[hour] * STEP)) for hour in range(4) for at in minutes(hour)}
    )


@pytest.mark.parametrize("usage_params", PARAMS.values(), ids=PARAMS)
async def test_sums_of_every_kind_of_window_are_ours(source, usage_params):
    found = await source(**usage_params).read(now=END)
    expected = used_shares(
        {queue: buckets(held) for queue, held in HELD.items()},
        buckets(CAPACITY),
        params=params(**usage_params),
        now=END,
        bucket_seconds=STEP,
    )
    assert expected["b"][2] > 0.2
    for queue, (_, _, gpus) in expected.items():
        assert found.by_queue.get(queue, (0, 0, 0))[2] == pytest.approx(gpus, abs=ONE_SAMPLE), queue


async def test_a_resource_that_nobody_offers_is_told_and_the_others_count(source):
    found = await source(windowSize="1h").read(now=END)
    assert found.notes == (
        "the capacity of CPU is nothing: it counts as unused",
        "the capacity of memory is nothing: it counts as unused",
    )


async def test_metrics_may_be_expressions_of_ones_own(source):
    own = {
        "gpuAllocationMetric": 'sum by (queue_name) (kai_queue_allocated_gpus{queue_name="b",pod="second"})'
    }
    asked = source(windowSize="1h", extraParams={**own, "gpuCapacityMetric": "vector(16)"})
    found = await asked.read(now=END)
    assert found.by_queue == {"b": (0.0, 0.0, pytest.approx(0.5, abs=ONE_SAMPLE))}


async def test_before_anything_was_scraped_nothing_is_known(source):
    with pytest.raises(UsageUnavailable, match="let it scrape kube-state-metrics"):
        await source(windowSize="1h").read(now=START - HOUR)


async def test_an_expression_that_is_none_is_told_as_prometheus_tells_it(source):
    asked = source(extraParams={"gpuCapacityMetric": "sum(kube_node_status_capacity"})
    with pytest.raises(UsageUnavailable, match=r"answers 400: bad_data: .*parse error"):
        await asked.read(now=END)
