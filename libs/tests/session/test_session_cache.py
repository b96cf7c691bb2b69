"""The session cache on a real Redis: fenced, bounded, and gone without harm."""

import asyncio
import hashlib
import time

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually, patience
from kai.session.cache import HISTORY_SECONDS, Head, InFlightDecision, Publication, SessionCache
from kai.session.errors import CacheUnavailable, Fenced, RedisServerMissing
from kai.session.publisher import WAITING_AT_MOST, PublisherMetrics, SessionPublisher
from kai.session.server import find_redis_server, redis_server
from kai.session.usage import BUCKET_SECONDS, UsageRecord, bucket_start
from kai.session.usage_history import UsageBuckets

pytestmark = pytest.mark.integration

#: Redis numbers its streams by its own clock. Within a bucket, so that a second later is in the same one.
NOW = bucket_start(time.time()) + 10.0


def a_publication(version, *, epoch=1, **more):
    return Publication(version=version, epoch=epoch, opened_at=NOW, digest=f"d{version}", **more)


def a_decision(pod="ns/p", *, epoch=1):
    return InFlightDecision(pod=pod, pod_uid=f"uid-{pod}", node="n1", epoch=epoch, deadline=NOW + 30)


@pytest.fixture
async def cache():
    async with redis_server() as url, SessionCache.connect(url, shard="default") as cache:
        yield cache


async def test_an_empty_cache_has_no_head_and_no_history(cache):
    assert await cache.head() is None
    assert await cache.history() == []
    assert await cache.in_flight() == {}
    assert await cache.snapshot(1) is None


async def test_what_is_published_is_read_back(cache):
    published = a_publication(
        5, update=b"\x00update", decisions=b"\xffdecisions", snapshot=b"snap", in_flight={"d1": a_decision()}
    )
    assert await cache.publish(published) is True
    assert await cache.head() == Head(version=5, epoch=1, digest="d5", snapshot=5)
    assert await cache.snapshot(5) == b"snap"
    assert await cache.in_flight() == {"d1": a_decision()}
    (entry,) = await cache.history()
    assert (entry.version, entry.epoch, entry.update, entry.decisions) == (
        5,
        1,
        b"\x00update",
        b"\xffdecisions",
    )


async def test_sessions_are_published_without_sha1(cache, monkeypatch):
    monkeypatch.delattr(hashlib, "sha1")
    again = SessionCache(cache.connection, shard="default")
    assert await again.publish(a_publication(1)) is True
    assert (await again.head()).version == 1


async def test_who_asks_again_and_again_ends_when_cancelled_at_whatever_moment(cache):
    async def ask():
        while True:
            await cache.ping()

    for steps in range(60):
        task = asyncio.create_task(ask())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=patience())
        if not done:
            task.cancel()
            await asyncio.wait([task])
        assert done, f"the cancellation after {steps} steps was lost"


async def test_every_key_of_a_shard_is_in_one_slot(cache):
    await cache.publish(a_publication(1, snapshot=b"s", in_flight={"d": a_decision()}))
    await UsageRecord(cache).add(
        at=NOW, seconds=1, queues={"q": (1, 1, 1)}, capacity=(2, 2, 2), keep_seconds=60
    )
    keys = await cache.connection.keys("*")
    assert len(keys) >= 7
    assert all(key.startswith(b"kai:{default}:") for key in keys)


async def test_a_leader_whose_time_is_over_cannot_publish(cache):
    await cache.publish(a_publication(3, epoch=20))
    with pytest.raises(Fenced, match=r"epoch 19 is over.*20"):
        await cache.publish(a_publication(99, epoch=19, snapshot=b"old"))
    assert (await cache.head()).epoch == 20
    assert await cache.snapshot(99) is None


async def test_a_new_leader_starts_its_versions_where_it_likes(cache):
    await cache.publish(a_publication(300, epoch=20))
    assert await cache.publish(a_publication(1, epoch=21)) is True
    assert (await cache.head()).version == 1


async def test_publishing_again_after_a_lost_answer_does_no_harm(cache):
    assert await cache.publish(a_publication(1)) is True
    assert await cache.publish(a_publication(1)) is False
    assert len(await cache.history()) == 1


async def test_only_the_last_three_snapshots_are_kept_and_they_expire(cache):
    for version in range(1, 6):
        await cache.publish(a_publication(version, snapshot=b"s"))
    kept = [version for version in range(1, 6) if await cache.snapshot(version) is not None]
    assert kept == [3, 4, 5]
    assert 0 < await cache.connection.ttl(cache.keys.snapshot(5)) <= 3600


@pytest.mark.parametrize("again", [1, 40, 80])
async def test_a_snapshot_is_kept_though_an_earlier_term_had_one_of_its_version(cache, again):
    """The versions of each term begin at 1."""
    for version in (1, 40, 80):
        await cache.publish(a_publication(version, epoch=20, snapshot=b"old"))
    await cache.publish(a_publication(again, epoch=21, snapshot=b"new"))
    assert await cache.snapshot((await cache.head()).snapshot) == b"new"
    for version in (101, 102):
        await cache.publish(a_publication(version, epoch=21, snapshot=b"s"))
    kept = [version for version in (1, 40, 80, 101, 102) if await cache.snapshot(version) is not None]
    assert kept == [again, 101, 102]


async def test_sessions_of_a_shard_that_publishes_no_more_expire(cache):
    for version in (1, 2):
        await cache.publish(a_publication(version))
        assert 0 < await cache.connection.ttl(cache.keys.sessions) <= HISTORY_SECONDS
        await cache.connection.persist(cache.keys.sessions)


async def test_a_session_without_a_snapshot_leaves_the_last_one_in_place(cache):
    await cache.publish(a_publication(1, snapshot=b"s"))
    await cache.publish(a_publication(2))
    assert await cache.head() == Head(version=2, epoch=1, digest="d2", snapshot=1)


async def test_what_is_in_flight_is_what_the_newest_session_says(cache):
    await cache.publish(a_publication(1, in_flight={"d1": a_decision("a/1"), "d2": a_decision("a/2")}))
    await cache.publish(a_publication(2, in_flight={"d2": a_decision("a/2"), "d3": a_decision("a/3")}))
    assert sorted(await cache.in_flight()) == ["d2", "d3"]


async def test_history_can_be_read_from_a_time_on(cache):
    for version in (1, 2, 3):
        await cache.publish(a_publication(version))
    everything = await cache.history()
    assert [entry.version for entry in everything] == [1, 2, 3]
    assert [entry.version for entry in await cache.history(limit=2)] == [2, 3]
    assert await cache.history(since=everything[-1].at + 1) == []


async def test_redis_gone_is_an_error_of_ours():
    async with redis_server() as url:
        pass
    async with SessionCache.connect(url, shard="s") as cache:
        with pytest.raises(CacheUnavailable, match="does not answer"):
            await cache.ping()
        with pytest.raises(CacheUnavailable):
            await cache.publish(a_publication(1))


async def test_a_redis_that_became_a_replica_is_left_for_the_one_that_leads_now(tmp_path):
    """Where nobody ends its connections, as an address that leads elsewhere does not."""
    one, two, address = tmp_path / "one", tmp_path / "two", tmp_path / "redis"
    async with redis_server(unix_socket=one), redis_server(unix_socket=two):
        address.symlink_to(one)
        async with SessionCache.connect(f"unix://{address}", shard="default") as cache:
            assert await cache.publish(a_publication(1))
            await cache.connection.execute_command("REPLICAOF", "127.0.0.1", "1")
            address.unlink()
            address.symlink_to(two)
            with pytest.raises(CacheUnavailable, match="read only replica"):
                await cache.publish(a_publication(2))
            assert await cache.publish(a_publication(2))


async def test_a_redis_that_is_full_is_an_error_of_ours(cache):
    await cache.connection.config_set("maxmemory", 1)
    with pytest.raises(CacheUnavailable, match="refuses publish"):
        await cache.publish(a_publication(1, snapshot=b"x" * 1000))


async def test_a_redis_that_is_full_of_sessions_keeps_fewer_and_takes_all_that_is_new(cache):
    megabytes = 20
    await cache.connection.config_set("maxmemory", megabytes * 2**20)
    update = b"x" * 500_000
    for version in range(1, 121):
        snapshot = b"s" * 1_000_000 if version % 10 == 0 else b""
        await cache.publish(
            a_publication(version, update=update, snapshot=snapshot, in_flight={"d": a_decision()})
        )
        used = (await cache.connection.info("memory"))["used_memory"]
        assert used < (megabytes + 5) * 2**20, f"version {version}"
    assert await cache.head() == Head(version=120, epoch=1, digest="d120", snapshot=120)
    assert await cache.in_flight() == {"d": a_decision()}
    versions = [entry.version for entry in await cache.history()]
    assert versions == list(range(versions[0], 121))


async def test_a_redis_that_is_full_of_snapshots_keeps_the_newest(cache):
    for version in (1, 2, 3):
        await cache.publish(a_publication(version, snapshot=b"s" * 1_000_000))
    await cache.connection.xtrim(cache.keys.sessions, maxlen=0, approximate=False)
    await cache.connection.config_set("maxmemory", 3_000_000)
    await cache.publish(a_publication(4, in_flight={"d": a_decision()}))
    assert [version for version in (1, 2, 3) if await cache.snapshot(version)] == [3]
    assert await cache.in_flight() == {"d": a_decision()}


# --- in the background -------------------------------------------------------------------------
async def test_scheduling_goes_on_without_redis_and_everything_in_flight_is_there_when_it_is_back(tmp_path):
    registry = CollectorRegistry()
    socket = tmp_path / "r.sock"
    async with SessionCache.connect(f"unix://{socket}", shard="s") as cache:
        publisher = SessionPublisher(cache, metrics=PublisherMetrics(registry), failed=[].append)
        running = asyncio.create_task(publisher.run())
        # Who waits to lead has written nothing, and does not tell that nothing is written.
        assert registry.get_sample_value("kai_session_cache_up") is None
        async with redis_server(unix_socket=socket):
            publisher.offer(a_publication(1, in_flight={"d1": a_decision("a/1"), "d2": a_decision("a/2")}))

            async def first_is_there():
                return (head := await cache.head()) is not None and head.version == 1

            await eventually(first_is_there)
            await eventually(lambda: registry.get_sample_value("kai_session_cache_up") == 1)

        for version in range(2, 2 + WAITING_AT_MOST + 5):
            publisher.offer(a_publication(version, in_flight={"d2": a_decision("a/2")}))

        async def noticed():
            return registry.get_sample_value("kai_session_cache_up") == 0

        await eventually(noticed)
        assert registry.get_sample_value("kai_session_cache_dropped_total") == 5

        async with redis_server(unix_socket=socket):

            async def caught_up():
                head = await cache.head()
                return head is not None and head.version == 1 + WAITING_AT_MOST + 5

            await eventually(caught_up)
            # That Redis came back empty.
            assert sorted(await cache.in_flight()) == ["d2"]
            assert registry.get_sample_value("kai_session_cache_up") == 1
        running.cancel()
        await asyncio.wait([running])


class Choosy:
    """A cache with a defect that one session meets."""

    def __init__(self, cache):
        self._cache = cache

    async def publish(self, publication):
        if publication.version == 1:
            raise ValueError("a defect")
        return await self._cache.publish(publication)


async def test_a_session_that_cannot_be_written_is_told_and_costs_nobody_the_next(cache):
    registry, told = CollectorRegistry(), []
    publisher = SessionPublisher(
        Choosy(cache), metrics=PublisherMetrics(registry), failed=lambda error: told.append(str(error))
    )
    running = asyncio.create_task(publisher.run())
    for version in (1, 2):
        publisher.offer(a_publication(version))
    await eventually(lambda: registry.get_sample_value("kai_session_cache_published_total") == 1)
    assert (await cache.head()).version == 2
    assert registry.get_sample_value("kai_session_cache_dropped_total") == 1
    assert told == ["a defect"]
    running.cancel()
    await asyncio.wait([running])


async def test_while_a_later_leader_publishes_nothing_of_an_earlier_one_is_written(cache):
    await cache.publish(a_publication(1, epoch=9))
    registry = CollectorRegistry()
    publisher = SessionPublisher(cache, metrics=PublisherMetrics(registry), failed=[].append)
    running = asyncio.create_task(publisher.run())
    for version in (50, 51):
        publisher.offer(a_publication(version, epoch=8))
    await eventually(
        lambda: registry.get_sample_value("kai_session_cache_dropped_total") == 2,
        what="both are refused",
    )
    assert (await cache.head()).version == 1
    running.cancel()


@pytest.mark.parametrize("lie", [{"epoch": 2**53, "version": 1}, {"epoch": "x", "version": "y"}])
async def test_an_epoch_that_only_redis_tells_of_does_not_end_publishing(cache, monkeypatch, lie):
    monkeypatch.setattr("kai.session.publisher.TERM_ENDS_SECONDS", 0.0)
    await cache.connection.hset(cache.keys.head, mapping={**lie, "digest": "d"})
    publisher = SessionPublisher(cache, metrics=PublisherMetrics(CollectorRegistry()), failed=[].append)
    running = asyncio.create_task(publisher.run())
    for version in (1, 2):
        publisher.offer(a_publication(version, epoch=8))

    async def ours():
        return await cache.connection.hget(cache.keys.head, "epoch") == b"8"

    await eventually(ours, what="the leader of the Lease publishes")
    running.cancel()


# --- usage -------------------------------------------------------------------------------------
def buckets(series):
    """Amounts by start."""
    return dict(zip(series.start.tolist(), series.amounts.tolist(), strict=True))


async def test_usage_adds_up_in_buckets_of_which_older_ones_are_left_out(cache):
    record = UsageRecord(cache)
    start = bucket_start(NOW)
    for at, gpus in [(NOW - 10 * BUCKET_SECONDS, 8.0), (NOW, 2.0), (NOW + 1, 3.0)]:
        await record.add(
            at=at,
            seconds=10,
            queues={"team": (1000.0, 0.0, gpus)},
            capacity=(4000.0, 1e9, 8.0),
            keep_seconds=1e6,
        )
    history = await UsageBuckets(cache).read(since=NOW - BUCKET_SECONDS)
    assert list(history.queues) == ["team"]
    assert buckets(history.queues["team"]) == {start: [20_000.0, 0.0, 50.0]}
    assert buckets(history.capacity) == {start: [80_000.0, 2e10, 160.0]}


async def test_usage_that_nobody_of_us_can_have_written_is_removed_and_the_rest_counts(cache):
    record = UsageRecord(cache)
    use = {"queues": {"team": (1000.0, 0.0, 2.0)}, "capacity": (4000.0, 1e9, 8.0)}
    await record.add(at=NOW, seconds=10, keep_seconds=1e6, **use)
    key, start = cache.keys.usage("team"), bucket_start(NOW)
    odd = {
        f"{start}/gpu": "nan", f"{start}/memory": "inf", f"{start + 300}/gpu": "-5", "x/gpu": "1",
        f"{start}/coffee": "1", f"{'9' * 5000}/gpu": "1", "": "", f"{start + 600}/cpu": "much",
    }  # fmt: skip
    await cache.connection.hset(key, mapping=odd)
    await cache.connection.sadd(cache.keys.usage_queues, b"\xff")
    history = await UsageBuckets(cache).read(since=NOW - BUCKET_SECONDS)
    assert buckets(history.queues["team"]) == {start: [10_000.0, 0.0, 0.0]}
    assert await cache.connection.hlen(key) == 1


async def test_usage_that_is_too_old_is_removed_though_nobody_reads_it(cache):
    record = UsageRecord(cache)

    async def use(queue, at):
        await record.add(at=at, seconds=10, queues={queue: (1, 1, 1)}, capacity=(2, 2, 2), keep_seconds=1e6)

    await use("busy", NOW - 900)
    await use("busy", NOW)
    await use("gone", NOW - 900)
    await record.trim(before=NOW - 300)
    assert await cache.connection.hlen(cache.keys.usage("busy")) == 3
    assert await cache.connection.hlen(cache.keys.capacity) == 3
    assert await cache.connection.smembers(cache.keys.usage_queues) == {b"busy"}
    assert await cache.connection.exists(cache.keys.usage("gone")) == 0


async def test_usage_survives_a_restart_of_a_redis_that_keeps_it(tmp_path):
    use = {"queues": {"team": (1000.0, 0.0, 2.0)}, "capacity": (4000.0, 1e9, 8.0)}
    socket = tmp_path / "redis.sock"
    async with SessionCache.connect(f"unix://{socket}", shard="default") as cache:
        record, reader = UsageRecord(cache), UsageBuckets(cache)
        async with redis_server(unix_socket=socket, keep_in=tmp_path):
            await record.add(at=NOW, seconds=10, keep_seconds=1e6, **use)
            before = buckets((await reader.read(since=0)).capacity)
        with pytest.raises(CacheUnavailable):
            await reader.read(since=0)
        async with redis_server(unix_socket=socket, keep_in=tmp_path):
            assert buckets((await reader.read(since=0)).capacity) == before != {}
            await record.add(at=NOW, seconds=10, keep_seconds=1e6, **use)
            (amounts,) = buckets((await reader.read(since=0)).queues["team"]).values()
    assert amounts == [20_000.0, 0.0, 40.0]


# --- the program -------------------------------------------------------------------------------
def test_without_any_redis_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RedisServerMissing, match="kai-scheduler\\[local\\]"):
        find_redis_server()
