"""A store that is away or full is told and tried again, and nothing that waits is lost."""

import asyncio
import math

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from deadlines import eventually, within
from kai.history.addresses import open_database
from kai.history.errors import STORE_AWAY
from kai.history.questions import Selection, count
from kai.history.records import Cycle, Run
from kai.history.sqlite import SqliteDriver
from kai.history.store import open_store
from kai.kube.lease import LeaseTimes
from kai_insight.buffer import Buffer
from kai_insight.metrics import InsightMetrics
from kai_insight.writer import StoreState, Writer
from libs.tests.history.builders import HOUR, NOON, a_cycle, a_run

pytestmark = pytest.mark.integration


@pytest.fixture
def disk(monkeypatch):
    """The pages that SQLite may use: 1,000,000, until a test says otherwise."""
    room = {"pages": 1_000_000}
    connect = SqliteDriver.connect

    def bounded(driver):
        connection = connect(driver)
        connection.execute(f"PRAGMA max_page_count = {room['pages']}")
        return connection

    monkeypatch.setattr(SqliteDriver, "connect", bounded)
    return room


class Writing:
    def __init__(self, path, *, most=100_000, now=lambda: NOON, retention=24 * HOUR):
        self.registry = CollectorRegistry()
        metrics = InsightMetrics(self.registry)
        self.database = open_database(f"sqlite:///{path}")
        self.store = open_store(self.database)
        self.state = StoreState(metrics)
        self.buffer = Buffer(most=most)
        self.writer = Writer(
            self.store,
            self.buffer,
            state=self.state,
            metrics=metrics,
            interval=0.01,
            retention=retention,
            looking=lambda: True,
            left=lambda: math.inf,
            now=now,
        )

    def value(self, name, **labels):
        return self.registry.get_sample_value(name, labels)

    def cycles(self):
        return count(self.database, Cycle, Selection())


@pytest.fixture
def writing(tmp_path):
    return Writing(tmp_path / "history.db")


async def test_until_when_things_were_looked_at_follows_a_clock_that_is_put_back(tmp_path):
    clock = [NOON + HOUR]
    writing = Writing(tmp_path / "history.db", now=lambda: clock[0])
    for clock[0] in (NOON + HOUR, NOON):
        assert await writing.writer.write()
    assert writing.store.seen() == NOON


async def test_what_is_written_is_counted_and_says_until_when(writing):
    writing.buffer.put(a_cycle(1))
    writing.buffer.put(a_run())
    assert await writing.writer.write()
    assert writing.value("kai_history_records_total", table="cycles") == 1
    assert writing.value("kai_history_store_up") == 1
    assert writing.value("kai_history_written_until_seconds") == NOON
    assert writing.store.seen() == NOON


async def test_a_full_disk_is_told_once_and_costs_nothing_that_waits(writing, disk):
    disk["pages"] = 1
    writing.database.close()
    for number in range(500):
        writing.buffer.put(a_cycle(number))
    with capture_logs() as logs:
        task = asyncio.create_task(writing.writer.run())
        await eventually(
            lambda: writing.value("kai_history_store_failures_total"), lambda failures: failures >= 2
        )
        assert writing.state.trouble == STORE_AWAY
        assert writing.value("kai_history_store_up") == 0
        assert writing.cycles() == 0
        disk["pages"] = 1_000_000
        await eventually(writing.cycles, lambda cycles: cycles == 500)
        await eventually(lambda: not writing.state.trouble)
        task.cancel()
        await asyncio.wait([task])
    assert writing.value("kai_history_store_up") == 1
    events = [log["event"] for log in logs]
    assert events.count("the history is not recorded; scheduling is not affected") == 1
    assert events.count("the history is recorded again") == 1
    assert any("full" in log.get("reason", "") for log in logs)


async def test_a_file_that_is_taken_away_is_told_and_in_another_one_all_begins_anew(writing, tmp_path):
    task = asyncio.create_task(writing.writer.run())
    await eventually(lambda: writing.store.seen())
    for file in tmp_path.iterdir():
        file.unlink()
    writing.buffer.put(a_cycle(1))
    async with within("the writer ends"):
        await task
    assert writing.value("kai_history_store_failures_total")
    assert not writing.state.trouble
    other = open_store(open_database(f"sqlite:///{tmp_path / 'history.db'}"))
    assert count(other.database, Cycle, Selection()) == 1


async def test_what_waits_at_the_end_is_written(writing):
    task = asyncio.create_task(writing.writer.run())
    await eventually(lambda: writing.store.seen())
    writing.buffer.put(a_cycle(1))
    task.cancel()
    await asyncio.wait([task])
    assert writing.cycles() == 1


_TIMES = LeaseTimes()


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("left", "at_most"),
    [(math.inf, _TIMES.duration - _TIMES.renew_deadline), (_TIMES.retry / 4, _TIMES.retry / 4)],
    ids=["stopped", "loss learned late"],
)
async def test_a_leader_that_ends_waits_for_no_store_until_others_may_lead(writing, left, at_most):
    class Slow:
        trouble = ""

        async def asked(self, question):
            await asyncio.Event().wait()

    registry, clock = CollectorRegistry(), asyncio.get_running_loop().time
    writer = Writer(
        writing.store,
        writing.buffer,
        state=Slow(),
        metrics=InsightMetrics(registry),
        interval=1,
        retention=HOUR,
        looking=lambda: True,
        left=lambda: left,
    )
    writing.buffer.put(a_cycle(1))
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(1)
    running.cancel()
    began = clock()
    with pytest.raises(asyncio.CancelledError):  # and nothing else ended it
        await running
    assert clock() - began < at_most


async def test_after_a_loss_writing_ends_once_the_rest_is_written(tmp_path):
    writing = Writing(tmp_path / "history.db", most=3)
    for number in range(5):
        writing.buffer.put(a_cycle(number))
    async with within("the rest is written"):
        await writing.writer.run()
    assert (writing.cycles(), writing.buffer.refused) == (3, 2)


async def test_what_is_too_old_is_removed_and_what_lasts_stays(tmp_path):
    writing = Writing(tmp_path / "history.db", now=lambda: NOON + 48 * HOUR)
    writing.store.add([a_cycle(1), a_cycle(2, at=40), a_run("old", ended=1), a_run("lasts")])
    task = asyncio.create_task(writing.writer.keep_house())
    await eventually(writing.cycles, lambda cycles: cycles == 1)
    await eventually(lambda: count(writing.database, Run, Selection()), lambda runs: runs == 1)
    await eventually(lambda: writing.value("kai_history_store_bytes"))
    task.cancel()
    await asyncio.wait([task])
    assert [run.pod for run in writing.store.open_runs()] == ["lasts"]
