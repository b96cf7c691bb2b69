"""Cycles are kept in order, as far as there is room for them while the store is away."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.history import recordings
from kai.history.errors import StoreUnavailable
from kai.history.recordings import Wanted
from kai_insight import cycles
from kai_insight.cycles import CycleRecorder
from kai_insight.metrics import InsightMetrics, ReplayMetrics, VerdictMetrics
from kai_insight.settings import InsightSettings
from kai_insight.verdicts import Verdicts
from kai_insight.writer import StoreState
from services.tests.insight.recording import Recording

WANTED = Wanted(shard="default")


class Scheduler:
    """Tells what the test says, in place of a stream."""

    def __init__(self):
        self.told = asyncio.Queue()

    async def __call__(self, client, **_):
        while True:
            yield await self.told.get()


class Shards:
    """One, in place of those that the API server knows."""

    def __init__(self, *_, **__):
        pass

    async def run(self, work, *, gone):
        await work(cycles.Shard("kai-scheduler", "default"))


@pytest.fixture
def scheduler(monkeypatch):
    made = Scheduler()
    monkeypatch.setattr(cycles, "watch_cycles", made)
    monkeypatch.setattr(cycles, "ShardFollower", Shards)
    return made


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def recorder(store, registry):
    def make(**settings):
        return CycleRecorder(
            None,
            InsightSettings(write_interval=0.01, **settings),
            database=store.database,
            state=StoreState(InsightMetrics(registry)),
            metrics=ReplayMetrics(registry),
            verdicts=Verdicts(VerdictMetrics(registry)),
        )

    return make


def kept(store):
    return [(each.number, each.base) for each in recordings.find(store.database, WANTED)]


@pytest.fixture
def opened():
    """The store was, unless a test says something else."""
    event = asyncio.Event()
    event.set()
    return event


async def running(recorder, work, opened):
    task = asyncio.create_task(recorder.run(opened))
    try:
        await work
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_a_scheduler_tells_is_kept_and_decided_again(scheduler, recorder, store, registry, opened):
    recording = Recording()
    for entry in (recording.base(), recording.cycle(), recording.cycle()):
        scheduler.told.put_nowait(entry)

    async def look():
        await eventually(lambda: kept(store), lambda found: found == [(0, True), (1, False), (2, False)])
        await eventually(lambda: registry.get_sample_value("kai_replay_cycles_total"), lambda n: n == 2)

    await running(recorder(), look(), opened)


async def test_what_there_is_no_room_for_while_the_store_is_away_is_missing_up_to_the_next_base(
    scheduler, recorder, store, registry, monkeypatch, opened
):
    recording = Recording()
    told = [recording.base(), *(recording.cycle() for _ in range(3)), recording.base(), recording.cycle()]
    monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", len(told[1].data))
    add = recordings.add

    def away(database, batch):
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(recordings, "add", away)

    async def look():
        for entry in told[:4]:
            scheduler.told.put_nowait(entry)
        await eventually(lambda: registry.get_sample_value("kai_replay_lost_cycles_total"), lambda n: n == 2)
        monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", 1 << 20)
        monkeypatch.setattr(recordings, "add", add)
        for entry in told[4:]:
            scheduler.told.put_nowait(entry)
        await eventually(
            lambda: kept(store), lambda found: found == [(0, True), (1, False), (3, True), (4, False)]
        )

    await running(recorder(replay_check=False), look(), opened)


async def test_a_base_larger_than_what_may_wait_takes_the_place_of_what_waits_of_its_shard(
    scheduler, recorder, store, registry, monkeypatch
):
    recording, opened = Recording(), asyncio.Event()
    elsewhere = replace(recording.base(), shard="elsewhere")
    entries = [recording.base(), recording.cycle(), recording.base(), recording.cycle(), recording.cycle()]
    monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", len(entries[2].data) - 1)
    for entry in (elsewhere, *entries):
        scheduler.told.put_nowait(entry)

    async def look():
        await eventually(lambda: registry.get_sample_value("kai_replay_lost_cycles_total"), lambda n: n == 1)
        opened.set()
        await eventually(lambda: kept(store), lambda found: found == [(1, True), (2, False), (3, False)])
        of_the_other = recordings.find(store.database, replace(WANTED, shard="elsewhere"))
        assert [each.base for each in of_the_other] == [True]

    await running(recorder(replay_check=False), look(), opened)


async def test_a_base_takes_the_place_of_no_cycles_that_follow_a_written_one_nor_of_another_shard(
    scheduler, recorder, registry, monkeypatch
):
    recording, opened, written = Recording(), asyncio.Event(), []
    entries = [recording.cycle(), recording.base(), recording.cycle()]
    small = [replace(each, shard="elsewhere", data=b"small") for each in entries]
    told = [*small, *entries, *small]
    monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", len(entries[1].data) - 1)
    monkeypatch.setattr(recordings, "add", lambda database, batch: written.extend(batch))
    for entry in told:
        scheduler.told.put_nowait(entry)

    async def look():
        await eventually(scheduler.told.empty)
        opened.set()
        await eventually(lambda: written)
        assert written == told
        assert registry.get_sample_value("kai_replay_lost_cycles_total") == 0

    await running(recorder(replay_check=False), look(), opened)


async def test_of_bases_that_the_store_does_not_take_one_waits_that_is_larger_than_what_may_wait(
    scheduler, recorder, store, registry, monkeypatch, opened
):
    recording, add = Recording(), recordings.add
    told = [each for _ in range(3) for each in (recording.base(), recording.cycle())]
    monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", len(told[0].data))
    asked = []

    def away(database, batch):
        asked.append(batch)
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(recordings, "add", away)

    async def look():
        for entry in told:
            scheduler.told.put_nowait(entry)
            tried = len(asked)
            await eventually(lambda: len(asked), lambda times, tried=tried: times > tried + 1)
        assert asked[-1] == told[4:]
        assert registry.get_sample_value("kai_replay_lost_cycles_total") == 2
        monkeypatch.setattr(recordings, "add", add)
        await eventually(lambda: kept(store), lambda found: found == [(2, True), (3, False)])

    await running(recorder(replay_check=False), look(), opened)


async def test_cycles_are_followed_before_the_store_is_opened_and_kept_from_then_on(
    scheduler, recorder, store, registry
):
    recording, opened = Recording(), asyncio.Event()

    async def look():
        for entry in (recording.base(), recording.cycle()):
            scheduler.told.put_nowait(entry)
        await eventually(lambda: registry.get_sample_value("kai_replay_cycles_total"), lambda n: n == 1)
        assert kept(store) == []
        opened.set()
        await eventually(lambda: kept(store), lambda found: found == [(0, True), (1, False)])

    await running(recorder(), look(), opened)


async def test_where_nothing_is_to_be_recorded_what_was_is_removed(scheduler, recorder, store, opened):
    recording = Recording()
    recordings.add(store.database, [recording.base(), replace(recording.cycle(), at=0.0)])
    await recorder(replay_retention=0).run(opened)
    assert kept(store) == []
