"""Usage history in a real Redis, and without one."""

import pytest
from prometheus_client import CollectorRegistry

from kai.model.decisions import QueueShare
from kai.session.cache import SessionCache
from kai.session.server import redis_server
from kai.session.usage import UsageRecord
from kai.session.usage_history import UsageBuckets
from kai.wire.sessions import NOTHING as NOTHING_KNOWN
from kai.wire.sessions import SessionUpdate
from kai_queue_controller.shares import ShareBook
from kai_queue_controller.usage import UsageSampler, failure_counter

pytestmark = pytest.mark.integration

NOTHING = (0.0, 0.0, 0.0)
NOW = 1_800_000_100.0


def a_share(queue, allocated):
    return QueueShare(
        queue=queue, display_name="", parent="", priority=100, deserved=NOTHING, limit=NOTHING,
        over_quota_weight=NOTHING, fair_share=NOTHING, allocated=allocated,
        allocated_non_preemptible=NOTHING, requested=NOTHING, usage=NOTHING,
    )  # fmt: skip


def a_sampler(cache, shares, *, failures=None, capacity=(8000.0, 2.0**34, 4.0)):
    return UsageSampler(
        cache,
        shares=lambda: shares,
        capacity=lambda: capacity,
        interval=30,
        retention=3600,
        failures=failures or failure_counter(CollectorRegistry()),
        now=lambda: NOW,
    )


async def test_samples_become_amounts_times_seconds():
    shares = [a_share("team", (1500.0, 2.0**30, 0.5)), a_share("idle", NOTHING)]
    async with redis_server() as url, SessionCache.connect(url, shard="default") as cache:
        sampler = a_sampler(cache, shares)
        await sampler.sample(30.0)
        await sampler.sample(10.0)
        history = await UsageBuckets(cache).read(since=0)
    (amounts,) = history.queues["team"].amounts.tolist()
    assert amounts == [60_000.0, 40 * 2.0**30, 20.0]
    assert history.capacity.amounts.tolist() == [[320_000.0, 40 * 2.0**34, 160.0]]
    assert list(history.queues) == ["team"]


async def test_what_is_older_than_it_is_to_be_kept_goes_once_an_hour():
    shares = [a_share("team", (1.0, 1.0, 1.0))]
    async with redis_server() as url, SessionCache.connect(url, shard="default") as cache:
        record = UsageRecord(cache)
        sampler = a_sampler(cache, shares)
        old = {"queues": {"team": (1.0, 1.0, 1.0)}, "capacity": (1.0, 1.0, 1.0), "keep_seconds": 1e6}
        for _ in range(2):
            await record.add(at=NOW - 7200, seconds=1.0, **old)
            await sampler.sample(30.0)
        history = await UsageBuckets(cache).read(since=0)
        assert len(history.queues["team"].start) == 2
        sampler = a_sampler(cache, shares)
        await sampler.sample(30.0)
        assert len((await UsageBuckets(cache).read(since=0)).queues["team"].start) == 1


async def test_without_redis_samples_are_lost_and_counted():
    registry = CollectorRegistry()
    failures = failure_counter(registry)
    async with SessionCache.connect("redis://127.0.0.1:1/0", shard="default") as cache:
        sampler = a_sampler(cache, [a_share("team", (1.0, 1.0, 1.0))], failures=failures)
        await sampler.sample(30.0)
        await sampler.sample(30.0)
    assert registry.get_sample_value("kai_usage_samples_lost_total") == 2


def an_update(**fields):
    return SessionUpdate(version=1, epoch=1, opened_at=NOW, **fields)


def test_capacity_is_what_the_scheduler_of_a_shard_divides():
    book = ShareBook()
    assert book.capacity("blue") is None
    book.take("blue", an_update(full=True, capacity=(1500.0, 2.0**30, 8.0)))
    book.take("blue", an_update())
    assert book.capacity("blue") == (1500.0, 2.0**30, 8.0)
    book.take("blue", an_update(capacity=(4000.0, 0.0, 8.0)))
    assert (book.capacity("blue"), book.capacity("default")) == ((4000.0, 0.0, 8.0), None)
    book.take("blue", NOTHING_KNOWN)
    assert book.capacity("blue") is None


async def test_nothing_is_recorded_while_no_scheduler_has_said_what_there_is():
    async with redis_server() as url, SessionCache.connect(url, shard="default") as cache:
        sampler = a_sampler(cache, [a_share("team", (1.0, 1.0, 1.0))], capacity=None)
        await sampler.sample(30.0)
        history = await UsageBuckets(cache).read(since=0)
    assert (history.queues, history.capacity.amounts.tolist()) == ({}, [])
