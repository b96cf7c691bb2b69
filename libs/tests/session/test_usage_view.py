"""Recorded usage, read bit by bit: always what reading all of it would give."""

import random

import pytest

from kai.session.cache import SessionCache
from kai.session.errors import CacheUnavailable
from kai.session.server import redis_server
from kai.session.usage import BUCKET_SECONDS, UsageRecord, bucket_start
from kai.session.usage_history import UsageBuckets
from kai.session.usage_view import SETTLED_SECONDS, UsageView

pytestmark = pytest.mark.integration

NOW = 1_800_000_000.0
QUEUES = ("a", "b", "c")


@pytest.fixture
async def cache():
    async with redis_server() as url, SessionCache.connect(url, shard="default") as cache:
        yield cache


async def use(record, at, *queues, gpus=1.0):
    await record.add(
        at=at,
        seconds=10,
        queues=dict.fromkeys(queues, (0.0, 0.0, gpus)),
        capacity=(0.0, 0.0, 8.0),
        keep_seconds=1e6,
    )


def rows(history):
    """All there is, as plain values; queues without any use say nothing."""
    named = {
        **{queue: each for queue, each in history.queues.items() if len(each.start)},
        "": history.capacity,
    }
    return {queue: (each.start.tolist(), each.amounts.tolist()) for queue, each in named.items()}


async def test_what_comes_over_hours_is_what_reading_all_of_it_gives(cache):
    record, reader, rng = UsageRecord(cache), UsageBuckets(cache), random.Random(7)
    view, now, window = UsageView(reader), NOW, 3 * 3600
    for _ in range(60):
        for queue in QUEUES:
            if rng.random() < 0.5:
                late = rng.uniform(-SETTLED_SECONDS, SETTLED_SECONDS - BUCKET_SECONDS)
                await use(record, now + late, queue, gpus=rng.randint(1, 8))
        now += rng.choice([30, 60, 300, 1500])
        since = now - window
        assert rows(await view.read(since=since, now=now)) == rows(await reader.read(since=since))


async def test_what_is_settled_is_not_asked_for_again(cache, monkeypatch):
    record = UsageRecord(cache)
    for number in range(50):
        await use(record, NOW - number * BUCKET_SECONDS, "a")
    reader = UsageBuckets(cache)
    view = UsageView(reader)
    await view.read(since=0, now=NOW)
    asked = []
    some_of = reader.some_of

    async def spied(keys, starts):
        asked.append(len(list(starts)))
        return await some_of(keys, starts)

    monkeypatch.setattr(reader, "some_of", spied)
    monkeypatch.setattr(reader, "all_of", None)
    assert len((await view.read(since=0, now=NOW + 60)).queues["a"].start) == 50
    assert asked == [5]


async def test_a_queue_that_is_new_is_read_as_a_whole(cache):
    record = UsageRecord(cache)
    view = UsageView(UsageBuckets(cache))
    await view.read(since=0, now=NOW)
    await use(record, NOW - 5000, "late")
    assert (await view.read(since=0, now=NOW + 60)).queues["late"].start.tolist() == [
        bucket_start(NOW - 5000)
    ]


async def test_what_redis_forgot_stays_known_until_it_is_too_old(cache):
    record = UsageRecord(cache)
    await use(record, NOW - 3600, "a")
    view = UsageView(UsageBuckets(cache))
    before = rows(await view.read(since=NOW - 7200, now=NOW))
    await cache.connection.flushall()
    assert rows(await view.read(since=NOW - 7200, now=NOW + 60)) == before
    assert rows(await view.read(since=NOW, now=NOW + 7200)) == {"": ([], [])}


async def test_a_clock_that_was_ahead_for_a_while_costs_nothing_of_what_is_recorded(cache):
    record = UsageRecord(cache)
    await use(record, NOW - 3600, "a")
    view = UsageView(UsageBuckets(cache))
    before = rows(await view.read(since=NOW - 7200, now=NOW))
    month = 30 * 86400
    assert rows(await view.read(since=NOW - 7200 + month, now=NOW + month)) != before
    assert rows(await view.read(since=NOW - 7200, now=NOW + 60)) == before


async def test_while_redis_is_away_nothing_of_what_is_known_is_lost(tmp_path):
    socket = tmp_path / "redis.sock"
    async with SessionCache.connect(f"unix://{socket}", shard="default") as cache:
        record = UsageRecord(cache)
        view = UsageView(UsageBuckets(cache))
        async with redis_server(unix_socket=socket, keep_in=tmp_path):
            await use(record, NOW, "a")
            before = rows(await view.read(since=0, now=NOW))
        with pytest.raises(CacheUnavailable):
            await view.read(since=0, now=NOW + 60)
        async with redis_server(unix_socket=socket, keep_in=tmp_path):
            assert rows(await view.read(since=0, now=NOW + 120)) == before
