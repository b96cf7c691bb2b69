"""What is asked over gRPC is answered from the store, and what cannot be is said why."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from deadlines import within
from kai.history.addresses import open_database
from kai.history.questions import Selection
from kai.history.records import RECORDS, Cycle, Decision, Run, Taking
from kai.history.usage import By
from kai.wire.channel import MAX_MESSAGE_BYTES, open_channel
from kai.wire.errors import PeerUnavailable
from kai.wire.history import HistoryClient
from kai.wire.history_codec import CALLS
from kai.wire.serving import serve
from kai.wire.v1 import history_pb2 as pb
from kai.wire.v1.history_pb2_grpc import HistoryServiceStub, add_HistoryServiceServicer_to_server
from kai_insight import servicer
from kai_insight.forecasts import Forecasts
from kai_insight.metrics import ForecastMetrics
from kai_insight.servicer import HistoryServicer
from libs.tests.history.builders import (
    HOUR,
    NOON,
    a_cycle,
    a_decision,
    a_queue_state,
    a_run,
    an_eviction,
)

pytestmark = pytest.mark.integration
ONE_OF_EACH = (a_run(), an_eviction(message="why"), a_cycle(binds=2), a_decision(), a_queue_state())


@asynccontextmanager
async def asking(database):
    answers = HistoryServicer(
        database, Forecasts(ForecastMetrics(CollectorRegistry())), now=lambda: NOON + 3 * HOUR
    )
    register = lambda server: add_HistoryServiceServicer_to_server(answers, server)  # noqa: E731
    async with (
        serve("127.0.0.1:0", [register], grace_seconds=0) as port,
        open_channel(f"127.0.0.1:{port}") as to,
    ):
        yield HistoryClient(to)


async def test_every_kind_of_record_comes_as_it_was_written(database, store):
    lasts, over = a_run("a"), a_run("b", began=1, ended=2)
    store.add([*ONE_OF_EACH, lasts, over])
    async with asking(database) as history:
        found = {kind: await history.find(kind, Selection()) for kind in RECORDS}
    assert found.pop(Run) == ([over, lasts], False)
    assert [rows for rows, _ in found.values()] == [[each] for each in ONE_OF_EACH[1:]]


async def test_rows_are_chosen_by_time_and_by_what_they_say(database, store):
    store.add([an_eviction("a", at=1), an_eviction("a", at=3), an_eviction("b", at=3, namespace="other")])
    async with asking(database) as history:
        late = await history.find(Taking, Selection(since=NOON + 2 * HOUR))
        of_a = await history.find(Taking, Selection(equal={"pod": "a", "namespace": "team"}))
        early = await history.find(Taking, Selection(until=NOON + 2 * HOUR))
    assert sorted(row.pod for row in late[0]) == ["a", "b"]
    assert [row.at for row in of_a[0]] == [NOON + 3 * HOUR, NOON + HOUR]
    assert [row.pod for row in early[0]] == ["a"]


async def test_the_newest_come_first_and_that_there_are_more_is_told(database, store, monkeypatch):
    store.add([a_cycle(number, at=number) for number in range(5)])
    async with asking(database) as history:
        assert [row.cycle for row in (await history.find(Cycle, Selection(), most=5))[0]] == [4, 3, 2, 1, 0]
        rows, more = await history.find(Cycle, Selection(), most=2)
        assert ([row.cycle for row in rows], more) == ([4, 3], True)
        assert not (await history.find(Cycle, Selection(), most=5))[1]
        monkeypatch.setattr(servicer, "MOST_ROWS", 3)
        assert len((await history.find(Cycle, Selection()))[0]) == 3


async def test_of_long_rows_as_many_are_told_as_a_message_has_room_for(database, store):
    """Some messages of the scheduler have tens of thousands of characters."""
    long = "x" * (MAX_MESSAGE_BYTES // 8)
    store.add([a_decision(at=number, message=long) for number in range(9)])
    async with asking(database) as history:
        rows, more = await history.find(Decision, Selection())
    assert [(row.at, row.message == long) for row in rows] == [
        (NOON + at * HOUR, True) for at in range(8, 1, -1)
    ]
    assert more


async def test_a_row_that_no_message_has_room_for_is_told_as_such(database, store):
    """Else nothing is told and that there is more, whatever is asked for next."""
    store.add([a_decision(at=1, message="x" * (MAX_MESSAGE_BYTES + 1))])
    async with asking(database) as history:
        with pytest.raises(PeerUnavailable, match="a row of Decision takes 64 MiB"):
            await history.find(Decision, Selection())


async def test_use_is_added_up(database, store):
    store.add([a_run("a", ended=2, gpus=4), a_run("b", queue="other", namespace="else", ended=1)])
    async with asking(database) as history:
        span = {"since": NOON, "until": NOON + 4 * HOUR}
        found = await history.usage(by=By.QUEUE, **span)
        elsewhere = await history.usage(by=By.QUEUE, **span, namespace="else")
    assert [(each.name, each.gpu_hours, each.pods) for each in found] == [
        ("research", 8.0, 1),
        ("other", 1.0, 1),
    ]
    assert [each.name for each in elsewhere] == ["other"]


async def test_use_that_has_not_happened_does_not_count(database, store):
    store.add([a_run("a", gpus=4)])
    async with asking(database) as history:
        (found,) = await history.usage(by=By.QUEUE, since=NOON, until=NOON + 400 * HOUR)
    assert found.gpu_hours == 12.0


async def test_a_question_that_makes_no_sense_is_refused_with_what_may_be_asked(database, store):
    async with asking(database) as history:
        with pytest.raises(PeerUnavailable, match="Cycle has no text 'namespace'; it has shard"):
            await history.find(Cycle, Selection(equal={"namespace": "team"}))
        with pytest.raises(PeerUnavailable, match=r"until \(0\) must be after since \(5\)"):
            await history.usage(by=By.QUEUE, since=5, until=0)
        with pytest.raises(PeerUnavailable, match="by 'moon' is not known; there are queue"):
            await history.usage(by="moon", since=0, until=5)
        with pytest.raises(PeerUnavailable, match="since is no time"):
            await history.find(Run, Selection(since=float("nan")))


async def test_a_forecast_is_kept_and_how_others_held_is_told(database, store):
    async with asking(database) as history:
        told = await history.keep_forecast(namespace="team", pod_group="pg", at=1.0, p50=0.0, p90=None)
        assert (told.decided50, told.decided90) == (0, 0)
        again = await history.keep_forecast(namespace="team", pod_group="other", at=1.0, p50=5.0, p90=9.0)
        assert (again.decided50, again.held50, again.decided90) == (1, 0, 0)
        with pytest.raises(PeerUnavailable, match="numbers that are not negative"):
            await history.keep_forecast(namespace="team", pod_group="pg", at=1.0, p50=-1.0, p90=None)


async def test_who_asks_and_goes_takes_no_threads_from_who_records(database):
    """A question that nobody waits for any more keeps its thread until the store answers."""
    under_way, answers_again = [], threading.Event()

    def read(work):
        under_way.append(work)
        answers_again.wait()

    database.read = read
    servicer = HistoryServicer(database, Forecasts(ForecastMetrics(CollectorRegistry())))
    try:
        for _ in range(50):
            asks = asyncio.create_task(servicer.GetCycles(pb.Selection(), None))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asks.cancel()
            await asyncio.gather(asks, return_exceptions=True)
        assert under_way
        async with within("who records gets a thread"):
            await asyncio.to_thread(lambda: None)
    finally:
        answers_again.set()
        servicer.close()


async def test_a_store_that_does_not_answer_is_told_at_once(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/later/history.db")
    async with asking(database) as history:
        with pytest.raises(PeerUnavailable, match="No such file or directory"):
            await history.find(Run, Selection())


def test_there_is_a_call_for_every_kind_of_record():
    assert CALLS.keys() == set(RECORDS)
    assert all(hasattr(HistoryServiceStub, "__init__") and call.method for call in CALLS.values())
