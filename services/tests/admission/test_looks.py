"""What is looked for at the API server while it waits: a few times, however many ask."""

import asyncio

import msgspec
import pytest

from kai.advice.facts import Facts
from kai.advice.finding import Reference
from kai.kube.errors import NotFound, TransportError
from kai_admission.cluster_watch import ClusterWatch
from kai_admission.looks import AT_ONCE, LIVE_READ_SECONDS, REMEMBERED_SECONDS, Looks

#: What the watches tell.
WATCHED = Facts(queues={}, namespaces={"ns": {}})


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Client:
    """Has no object of any name, and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    async def get(self, resource, name, **how):
        self.asked.append((resource.kind, name))
        await asyncio.sleep(0)
        raise NotFound(name, status=404)

    async def list(self, resource, **how):
        self.asked.append((resource.kind, ""))
        await asyncio.sleep(0)
        return []


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(client, clock):
    watch = ClusterWatch(Facts())
    watch._client, watch._looks = client, Looks(clock)
    return watch


async def missing(watch, kind, names):
    return await asyncio.gather(*(watch.is_missing(Reference(kind, name)) for name in names))


async def test_any_number_of_made_up_resources_is_one_look(watch, client):
    assert all(await missing(watch, "DeviceClass", [f"example.com/r{number}" for number in range(30)]))
    assert client.asked == [("DeviceClass", "")]


async def test_made_up_names_are_looked_for_a_few_times_and_then_nothing_is_said(watch, client, clock):
    found = await missing(watch, "Queue", [f"q{number}" for number in range(50)])
    assert found == [True] * AT_ONCE + [False] * (50 - AT_ONCE)
    assert await missing(watch, "PriorityClass", ["x"]) == [True]
    clock.now += 1
    assert await missing(watch, "Queue", ["later", "latest"]) == [True, False]
    assert len(client.asked) == AT_ONCE + 2


async def test_what_was_found_is_told_for_a_moment_where_no_look_is_left(watch, client, clock):
    await missing(watch, "Queue", [f"q{number}" for number in range(50)])
    assert await missing(watch, "Queue", ["q0", "q49"]) == [True, False]
    assert len(client.asked) == AT_ONCE
    clock.now += REMEMBERED_SECONDS
    await missing(watch, "Queue", [f"another{number}" for number in range(50)])
    assert await missing(watch, "Queue", ["q0"]) == [False]


async def test_who_is_refused_again_and_again_is_looked_at_a_few_times(watch, client, clock):
    for _ in range(50):
        clock.now += 0.001
        await watch.renewed("ns", "q")
    assert len(client.asked) == 2 * AT_ONCE


async def test_who_comes_while_a_look_is_under_way_is_not_told_what_it_finds(clock):
    """He may have made meanwhile what it does not find."""
    looks, begun, go = Looks(clock), asyncio.Event(), asyncio.Event()
    seen = []

    async def read():
        seen.append(clock.now)
        begun.set()
        await go.wait()
        return clock.now

    first = asyncio.create_task(looks.at("Queue", "q", read))
    await begun.wait()
    clock.now += 0.1
    later = [asyncio.create_task(looks.at("Queue", "q", read)) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(first, *later) == [clock.now] * 4
    assert seen == [100.0, 100.1]


class Slow:
    """Says of everything what a queue is, after some time."""

    def __init__(self, seconds):
        self.seconds = seconds

    async def get(self, resource, name, *, type, deadline):  # noqa: A002 (as the client calls it)
        await asyncio.sleep(self.seconds)
        return msgspec.convert({"metadata": {"name": name}}, type)


class Away:
    async def get(self, resource, name, **how):
        raise TransportError("connection refused")


@pytest.fixture
def judged(watch, monkeypatch):
    """By what somebody is judged who names a queue, with this API server."""
    monkeypatch.setattr(watch, "facts", lambda: WATCHED)

    async def judge(client, names):
        monkeypatch.setattr(watch, "_client", client)
        return await asyncio.gather(*(watch.renewed("ns", name) for name in names))

    return judge


@pytest.mark.looptime
async def test_who_comes_with_others_is_looked_at_or_judged_by_the_watches(watch, judged):
    found = await judged(Slow(0.05), [f"q{number}" for number in range(AT_ONCE + 5)])
    assert [list(known.queues) for known in found[:AT_ONCE]] == [[f"q{number}"] for number in range(AT_ONCE)]
    assert found[AT_ONCE:] == [WATCHED] * 5
    assert asyncio.get_running_loop().time() == pytest.approx(0.05)
    assert not watch._looks._locks


@pytest.mark.looptime
async def test_who_is_looked_at_for_too_long_is_judged_by_the_watches(judged):
    assert await judged(Slow(LIVE_READ_SECONDS + 0.1), ["q"]) == [WATCHED]


async def test_where_no_api_server_answers_nothing_is_known(judged):
    assert await judged(Away(), ["q"]) == [Facts()]
