"""All writes of a process go through one door, the most urgent first."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from kai.kube import dispatcher, errors
from kai.kube.dispatcher import NEWS_AT_MOST, Dispatcher
from kai.kube.exchange import Exchange
from kai.kube.flight_limit import LEAST, START, FlightLimit
from kai.kube.metrics import RequestMetrics
from kai.kube.pace import Pace
from kai.kube.ranks import Rank
from kai.kube.request import MERGE_PATCH, Request

pytestmark = pytest.mark.looptime

FORBIDDEN = errors.TooManyRequests("busy", status=429)


class Server:
    """Answers after ``seconds``; ``answers`` are refusals of the next writes, None to take one."""

    def __init__(self, *, pace=None):
        self.registry = CollectorRegistry()
        self.exchange = Exchange(
            SimpleNamespace(server="http://test"), RequestMetrics(self.registry), pace=pace
        )
        self.exchange.once = self.once
        self.seconds, self.answers = 1.0, []
        self.sent, self.done, self.at_once, self.most = [], [], 0, 0
        self.tasks = []

    @property
    def dispatcher(self):
        return self.exchange.dispatcher

    async def once(self, request):
        self.sent.append(request.subject)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        refusal = self.answers.pop(0) if self.answers else None
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        if refusal is not None:
            raise refusal
        self.done.append(request.subject)
        return request.data or b""

    def write(self, rank, subject, *, body=None, deadline=100.0, **options):
        """Begin a write; its task. With a body it is a patch of a status."""
        request = Request(
            verb="patch",
            resource="things/status" if rank is Rank.STATUS else "things",
            subject=subject,
            path=f"/things/{subject}",
            method="PATCH",
            data=json.dumps(body or {}).encode(),
            content_type="application/json" if body is None else MERGE_PATCH,
            rank=rank,
            **options,
        )
        task = asyncio.create_task(self.exchange.call(request, deadline=deadline))
        self.tasks.append(task)
        return task

    def writes(self, rank, count):
        """Begin writes of so many objects."""
        return [self.write(rank, f"{rank.name.lower()}-{number}") for number in range(count)]

    def sample(self, name, **labels):
        return self.registry.get_sample_value(name, labels)


@asynccontextmanager
async def a_server(**options):
    server = Server(**options)
    try:
        yield server
    finally:
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)


@pytest.fixture
async def server():
    async with a_server() as server:
        yield server


def now():
    return asyncio.get_running_loop().time()


async def test_who_is_urgent_goes_before_who_came_earlier(server):
    statuses, needs = server.writes(Rank.STATUS, 200), server.writes(Rank.NEED, 200)
    decisions = server.writes(Rank.DECISION, 200)
    await asyncio.gather(*decisions)
    assert sum(task.done() for task in needs) < 100
    await asyncio.gather(*needs)
    assert sum(task.done() for task in statuses) < 100


async def test_binds_keep_their_pace_whatever_waits_behind_them(server):
    """The server takes a second for each answer."""
    await asyncio.gather(*server.writes(Rank.DECISION, 400))
    alone = now()
    server.writes(Rank.STATUS, 500)
    server.writes(Rank.NEWS, 500)
    await asyncio.sleep(0.5)
    began = now()
    await asyncio.gather(*(server.write(Rank.DECISION, f"again {number}") for number in range(400)))
    assert now() - began <= alone + 2


async def test_a_bind_finds_a_place_where_everything_else_takes_long(server):
    server.seconds = 60.0
    for rank in (Rank.NEED, Rank.STATUS, Rank.NEWS):
        server.writes(rank, 100)
    await asyncio.sleep(1.0)
    bind = server.write(Rank.DECISION, "bind")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "bind" in server.sent
    assert not bind.done()


async def test_nobody_waits_for_ever(server):
    """Binds come without end, more than the server takes."""
    server.writes(Rank.DECISION, 5000)
    last = [server.write(rank, rank.name) for rank in (Rank.NEED, Rank.STATUS, Rank.NEWS)]
    await asyncio.gather(*last)
    assert now() < 5


async def test_leases_never_wait(server):
    server.writes(Rank.DECISION, 1000)
    lease = server.write(Rank.LEASE, "lease")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "lease" in server.sent
    assert not lease.done()


async def test_no_more_are_under_way_than_the_server_bears(server):
    await asyncio.gather(*server.writes(Rank.DECISION, START + 10))
    assert START - 3 <= server.most <= START


async def test_push_back_leaves_half_as_many(server):
    server.answers = [FORBIDDEN] * START
    writes = server.writes(Rank.DECISION, 4 * START)
    await asyncio.sleep(1.1)
    assert server.sample("kai_api_write_limit") == START // 2
    await asyncio.gather(*writes)
    assert server.done.count("decision-0") == 1
    assert len(server.done) == 4 * START


async def test_an_eviction_that_a_budget_forbids_is_no_push_back(server):
    server.answers = [FORBIDDEN]
    with pytest.raises(errors.TooManyRequests):
        await server.write(Rank.DECISION, "evict", retry_throttled=False)
    assert server.sample("kai_api_write_limit") == START


async def test_who_waits_to_be_tried_again_holds_no_place(server):
    """All writes that there is room for are refused; the next ones go out meanwhile."""
    server.answers = [errors.TooManyRequests("busy", status=429, retry_after=30.0)] * START
    refused = server.writes(Rank.DECISION, START - 3)
    others = [server.write(Rank.DECISION, f"later {number}") for number in range(LEAST)]
    server.answers = server.answers[: START - 3]
    await asyncio.gather(*others)
    assert now() < 5
    await asyncio.gather(*refused)
    assert now() == pytest.approx(31, abs=10)


async def test_statuses_and_news_leave_a_server_alone_that_asks_for_it(server):
    server.answers = [errors.TooManyRequests("busy", status=429, retry_after=7.0)]
    server.write(Rank.NEED, "throttled")
    await asyncio.sleep(1.5)
    waiting = [server.write(Rank.STATUS, "status"), server.write(Rank.NEWS, "event")]
    bind = server.write(Rank.DECISION, "bind")
    await bind
    assert now() == pytest.approx(2.5)
    await asyncio.gather(*waiting)
    assert now() == pytest.approx(9.0)


async def test_a_server_that_asks_for_years_is_asked_again_all_the_same(server):
    server.answers = [errors.TooManyRequests("busy", status=429, retry_after=1e9)]
    with pytest.raises(errors.TooManyRequests):
        await server.write(Rank.NEED, "throttled")
    await server.write(Rank.STATUS, "status")
    assert now() == pytest.approx(12.0)


# --- order and joining -------------------------------------------------------------------------
async def test_writes_of_one_object_go_out_one_after_the_other_also_where_one_is_tried_again(server):
    server.answers = [FORBIDDEN, None, FORBIDDEN]
    writes = [server.write(Rank.NEED, "a", body={"number": number}) for number in range(3)]
    other = server.write(Rank.NEED, "b")
    answers = await asyncio.gather(*writes)
    assert [json.loads(answer)["number"] for answer in answers] == [0, 1, 2]
    assert server.sent.count("a") == 5
    assert other.done()
    assert server.sent.index("b") < 3


async def test_a_bind_does_not_wait_for_the_status_of_its_pod(server):
    server.write(Rank.STATUS, "pod")
    await asyncio.sleep(0.1)
    await server.write(Rank.DECISION, "pod")
    assert now() == pytest.approx(1.1)


async def test_a_status_that_waits_is_joined_by_newer_ones_and_each_caller_gets_the_answer(server):
    first = server.write(Rank.STATUS, "a", body={"status": {"running": 0}})
    await asyncio.sleep(0.5)
    more = [
        server.write(Rank.STATUS, "a", body={"status": {"running": number, f"seen-{number}": True}})
        for number in range(1, 4)
    ]
    answers = await asyncio.gather(first, *more)
    assert server.sent == ["a", "a"]
    assert json.loads(answers[0]) == {"status": {"running": 0}}
    assert {json.loads(answer)["status"]["running"] for answer in answers[1:]} == {3}
    assert set(json.loads(answers[1])["status"]) == {"running", "seen-1", "seen-2", "seen-3"}
    assert server.sample("kai_api_writes_joined_total") == 2


async def test_nothing_but_statuses_is_joined(server):
    await asyncio.gather(*(server.write(Rank.NEED, "a", body={"number": number}) for number in range(3)))
    assert server.sent == ["a", "a", "a"]


async def test_who_was_joined_to_a_write_that_fails_fails_with_it(server):
    server.answers = [None, errors.NotFound("gone", status=404)]
    server.write(Rank.STATUS, "a", body={})
    await asyncio.sleep(0)
    joined = [server.write(Rank.STATUS, "a", body={"number": number}) for number in range(2)]
    for task in joined:
        with pytest.raises(errors.NotFound):
            await task
    assert server.sent == ["a", "a"]


@pytest.mark.parametrize("after", [0.5, 1.5], ids=["while it waits", "under way"])
async def test_a_write_goes_on_for_those_who_were_joined_to_it(server, after):
    server.write(Rank.STATUS, "a", body={"first": True})
    await asyncio.sleep(0)
    given_up = server.write(Rank.STATUS, "a", body={"older": True})
    await asyncio.sleep(0)
    joined = server.write(Rank.STATUS, "a", body={"newer": True})
    await asyncio.sleep(after)
    given_up.cancel()
    assert json.loads(await joined) == {"older": True, "newer": True}
    assert server.sent == ["a", "a"]


async def test_a_write_that_all_gave_up_is_not_sent(server):
    server.write(Rank.STATUS, "a", body={})
    await asyncio.sleep(0)
    given_up = [server.write(Rank.STATUS, "a", body={"number": number}) for number in range(3)]
    await asyncio.sleep(0.5)
    for task in given_up:
        task.cancel()
    await asyncio.wait(given_up)
    await server.write(Rank.STATUS, "a", body={"last": True})
    assert server.sent == ["a", "a"]
    assert server.done == ["a", "a"]


async def test_a_replacement_stays_between_the_changes_before_and_after_it(server):
    sent = []
    once = server.exchange.once
    server.exchange.once = lambda request: sent.append(json.loads(request.data)) or once(request)
    server.write(Rank.STATUS, "a", body={"number": 0})
    await asyncio.sleep(0)
    server.write(Rank.STATUS, "a", body={"number": 1})
    request = Request(
        verb="update", resource="things/status", subject="a", path="/things/a", method="PUT",
        data=b'{"number": 2}', rank=Rank.STATUS,
    )  # fmt: skip
    replacement = asyncio.create_task(server.exchange.call(request, deadline=100.0))
    await asyncio.sleep(0)
    await server.write(Rank.STATUS, "a", body={"number": 3})
    await replacement
    assert [body["number"] for body in sent] == [0, 1, 2, 3]


async def test_who_gives_up_leaves_its_place_to_the_next(server):
    first, second = (server.write(Rank.NEED, "a") for _ in range(2))
    await asyncio.sleep(0.5)
    third = server.write(Rank.NEED, "a")
    second.cancel()
    await asyncio.sleep(0)
    first.cancel()
    await third
    assert now() == pytest.approx(1.5)


# --- news --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("answer", "rest"), [(0.01, 0.04), (0.1, 0.4), (2.0, 1.0)])
async def test_after_each_of_the_news_its_place_rests(server, answer, rest):
    server.seconds = answer
    await asyncio.gather(*server.writes(Rank.NEWS, 10 * NEWS_AT_MOST))
    assert now() == pytest.approx(10 * answer + 9 * rest, rel=0.05)
    assert server.most == NEWS_AT_MOST


async def test_a_process_that_ends_does_not_rest(server):
    news = server.writes(Rank.NEWS, 10 * NEWS_AT_MOST)
    await asyncio.sleep(1.5)
    server.dispatcher.hurry()
    await asyncio.gather(*news)
    assert now() == pytest.approx(10.5)


async def test_no_rests_are_taken_where_too_many_wait(server, monkeypatch):
    monkeypatch.setattr(dispatcher, "HURRIED", 1)
    await asyncio.gather(*server.writes(Rank.NEWS, 10 * NEWS_AT_MOST))
    assert now() == pytest.approx(10.0)


@pytest.mark.parametrize("rank", [Rank.STATUS, Rank.NEWS])
async def test_where_too_many_wait_what_is_not_urgent_is_refused_and_counted(server, monkeypatch, rank):
    monkeypatch.setattr(dispatcher, "WAITING_AT_MOST", 10)
    server.writes(rank, 100)
    await asyncio.sleep(0)
    with pytest.raises(errors.NotSent):
        await server.write(rank, "one more")
    name = rank.name.lower()
    assert server.sample("kai_api_writes_refused_total", rank=name) > 0
    assert server.sample("kai_api_writes_waiting", rank=name) == 10


@pytest.mark.parametrize("rank", [Rank.DECISION, Rank.NEED])
async def test_what_was_decided_is_never_refused(server, monkeypatch, rank):
    monkeypatch.setattr(dispatcher, "WAITING_AT_MOST", 10)
    await asyncio.gather(*server.writes(rank, 1000))
    assert len(server.done) == 1000


# --- deadlines and pace ------------------------------------------------------------------------
async def test_waiting_for_a_place_is_no_part_of_a_deadline(server):
    statuses = server.writes(Rank.STATUS, 1000)
    assert await server.write(Rank.STATUS, "last", deadline=2.0) == b"{}"
    assert now() > 10
    assert all(task.done() for task in statuses)


async def test_trying_again_is_a_part_of_it(server):
    server.answers = [FORBIDDEN] * 100
    with pytest.raises(errors.DeadlineExceeded):
        await server.write(Rank.NEED, "a", deadline=5.0)
    assert now() == pytest.approx(5.0)


async def test_turns_of_a_pace_go_to_who_is_urgent_when_they_come():
    loop = asyncio.get_running_loop()
    async with a_server(pace=Pace(1, 1, clock=loop.time)) as server:
        server.seconds = 0.1
        server.writes(Rank.STATUS, 10)
        await asyncio.sleep(2.5)
        bind = server.write(Rank.DECISION, "bind")
        await bind
        assert now() == pytest.approx(3.1)
        await asyncio.gather(*server.tasks)
        assert now() == pytest.approx(10.1)


async def test_what_waits_and_is_under_way_can_be_seen(server):
    server.writes(Rank.DECISION, START + 10)
    await asyncio.sleep(0.5)
    flying = server.sample("kai_api_writes_in_flight", rank="decision")
    assert flying + server.sample("kai_api_writes_waiting", rank="decision") == START + 10
    assert server.sample("kai_api_write_limit") == START
    await asyncio.gather(*server.tasks)
    assert server.sample("kai_api_writes_in_flight", rank="decision") == 0
    assert server.sample("kai_api_write_wait_seconds_count", rank="decision") == START + 10


def test_a_limit_can_be_given():
    limit = FlightLimit()
    registry = CollectorRegistry()
    Dispatcher(RequestMetrics(registry).writes, limit=limit)
    limit.pushed_back(began=0, now=1)
    assert registry.get_sample_value("kai_api_write_limit") == START // 2
