"""Past use, read from a real Redis and kept when that is gone."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from deadlines import eventually
from kai.runtime import SettingsError
from kai.session.cache import SessionCache
from kai.session.errors import CacheUnavailable
from kai.session.server import redis_server
from kai.session.usage import UsageRecord
from kai_scheduler.troubles import Troubles
from kai_scheduler.usage import UsageReader, usage_params

NOW = 1_800_000_000.0


def some_troubles():
    return Troubles(Counter("cut_off_total", "", ("what",), registry=CollectorRegistry()))


class SpoiltRecord:
    """What is in Redis makes no sense."""

    def __init__(self):
        self.reads = 0

    async def read(self, *, since):
        self.reads += 1
        raise ValueError("not a number")


async def test_records_that_make_no_sense_are_told_and_end_nothing():
    params = usage_params({"usageParams": {"windowSize": "1h", "fetchInterval": "0.01s"}})
    latency = Histogram("latency", "x", registry=CollectorRegistry())
    record, troubles = SpoiltRecord(), some_troubles()
    reader = UsageReader(record, params, latency=latency, troubles=troubles, clock=lambda: NOW)
    task = asyncio.create_task(reader.run())
    try:
        await eventually(lambda: record.reads, lambda reads: reads > 2, what="usage is read again")
        assert not task.done()
    finally:
        task.cancel()
    assert "usage failed" in troubles.summary()


@pytest.mark.integration
async def test_shares_of_the_cluster_are_read_and_outlive_redis(tmp_path):
    latency = Histogram("latency", "x", registry=CollectorRegistry())
    socket = tmp_path / "r.sock"
    async with SessionCache.connect(f"unix://{socket}", shard="s") as cache:
        record = UsageRecord(cache)
        params = usage_params({"usageParams": {"windowSize": "1h"}})
        reader = UsageReader(record, params, latency=latency, troubles=some_troubles(), clock=lambda: NOW)
        async with redis_server(unix_socket=socket):
            for at, gpus in [(NOW - 7200, 8.0), (NOW - 1200, 2.0), (NOW - 600, 4.0)]:
                await record.add(
                    at=at,
                    seconds=60,
                    queues={"team": (0.0, 0.0, gpus)},
                    capacity=(1000.0, 1e9, 8.0),
                    keep_seconds=1e6,
                )
            await reader.read()
            assert reader.shares == {"team": (0.0, 0.0, pytest.approx(6 / 16))}
        with pytest.raises(CacheUnavailable):
            await reader.read()
    assert reader.shares["team"][2] == pytest.approx(6 / 16)


def test_params_that_cannot_be_used_are_refused_by_name():
    with pytest.raises(SettingsError, match=r"usageDBConfig\.usageParams\.windowType"):
        usage_params({"usageParams": {"windowType": "rolling"}})
