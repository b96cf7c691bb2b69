"""Who listens is told a base and every cycle after it, once and in order, or that he has to begin anew."""

import asyncio

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from deadlines import within
from kai.engine import Engine
from kai.replay.cycles import CannotBeTold, Replay, read_cycle
from kai.snapshot.changes import Changes
from kai.snapshot.state import ClusterState
from kai.wire.v1.session_pb2 import WatchCyclesRequest
from kai_scheduler import cycles
from kai_scheduler.core import Core
from kai_scheduler.cycles import CycleLog
from kai_scheduler.servicers import SessionServicer
from kai_scheduler.troubles import Troubles
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, usual_priorities, world_of


class Term:
    """A scheduler whose cycles are run by the test; ``clock`` is that of its log."""

    def __init__(self):
        self.engine = Engine(contained=True)
        self.core = Core(ClusterState(), self.engine)
        self.clock = 0.0
        self.log = CycleLog(self.core, epoch=5, shard="default", clock=lambda: self.clock, now=lambda: NOW)

    async def cycle(self, *things, number=0):
        batch = Changes()
        for kind, obj in world_of(*things):
            batch.objects.setdefault(kind, {})[obj.key] = obj
        result = await self.core.cycle(batch, now=NOW + number)
        self.log.record(batch, result, version=number, opened_at=NOW + number, usage={})
        return result


@pytest.fixture
def term():
    made = Term()
    yield made
    made.core.close()


async def read(stream, count):
    async with within(f"{count} entries come"):
        return [await anext(stream) for _ in range(count)]


def shown(entries):
    return [(each.number, each.base) for each in entries]


async def test_nothing_is_written_down_while_nobody_listens(term, monkeypatch):
    monkeypatch.setattr(cycles, "write_cycle", lambda *_, **__: pytest.fail("it was"))
    await term.cycle(number=1)
    assert term.core.cycles == 1


async def test_a_base_comes_first_and_then_every_cycle_and_they_decide_the_same(term):
    await term.cycle(usual_priorities(), a_queue("q"), a_node("n", gpus=2), number=1)
    stream = term.log.watch(base_seconds=100)
    (base,) = await read(stream, 1)
    decided = await term.cycle(a_job("first", queue="q", gpus=1), number=2)
    await term.cycle(a_job("second", queue="q", gpus=1), number=3)
    entries = await read(stream, 2)
    assert shown([base, *entries]) == [(1, True), (2, False), (3, False)]
    assert [(each.epoch, each.shard, each.at) for each in entries] == [
        (5, "default", NOW + 2),
        (5, "default", NOW + 3),
    ]
    assert [bind.pod.name for bind in decided.binds] == ["first-0"]
    replay = Replay(base.data)
    assert all(replay.decide(read_cycle(entry.data)).same for entry in entries)
    await stream.aclose()


async def test_another_base_comes_after_its_time_in_its_place_among_cycles(term):
    stream = term.log.watch(base_seconds=10)
    await term.cycle(number=1)
    assert shown(await read(stream, 1)) == [(1, True)]
    await term.cycle(number=2)
    term.clock = 11.0
    await term.cycle(number=3)
    assert shown(await read(stream, 3)) == [(2, False), (3, False), (3, True)]
    await term.cycle(number=4)
    assert shown(await read(stream, 1)) == [(4, False)]
    await stream.aclose()


async def test_who_listens_is_told_by_the_end_that_a_cycle_is_missing(term):
    stream = term.log.watch(base_seconds=100)
    await read(stream, 1)
    term.log.interrupt()
    async with within("it ends"):
        assert [entry async for entry in stream] == []


async def test_no_cycle_follows_the_one_that_is_missing_before_the_end_is_read(term):
    stream = term.log.watch(base_seconds=100)
    await read(stream, 1)
    term.log.interrupt()
    await term.cycle(number=1)
    async with within("it ends"):
        assert [entry async for entry in stream] == []


async def test_who_does_not_read_has_to_begin_anew_and_costs_no_more_memory(term, monkeypatch):
    monkeypatch.setattr(cycles, "MOST_WAITING_BYTES", 50)
    stream = term.log.watch(base_seconds=100)
    await read(stream, 1)
    await term.cycle(a_queue("q"), number=1)
    async with within("it ends"):
        assert [entry async for entry in stream] == []


async def test_there_is_no_base_while_something_is_set_aside_but_what_was_begun_goes_on(term, monkeypatch):
    stream = term.log.watch(base_seconds=10)
    await read(stream, 1)
    monkeypatch.setattr(Engine, "sets_aside", True)
    with pytest.raises(CannotBeTold):
        await anext(term.log.watch(base_seconds=10))
    term.clock = 20.0
    await term.cycle(number=1)
    assert shown(await read(stream, 1)) == [(1, False)]
    await stream.aclose()


async def test_the_end_of_a_term_ends_all(term):
    stream = term.log.watch(base_seconds=100)
    await read(stream, 1)
    waiting = asyncio.create_task(anext(stream, None))
    term.log.close()
    async with within("it ends"):
        assert await waiting is None


class Call(Exception):
    """Ended with a status."""


class Context:
    async def abort(self, code, details):
        raise Call(f"{code.name}: {details}")


async def test_over_which_object_a_base_fails_is_told_to_who_asks_and_to_everybody(term):
    await term.cycle(a_queue("odd"), number=1)
    (queue,) = await term.core.question(lambda state: list(state.queue_objects.values()))
    queue.metadata.labels = {("no", "text"): ""}
    troubles = Troubles(Counter("cut_off_total", "", ("what",), registry=CollectorRegistry()))
    servicer = SessionServicer(term.core, None, troubles)
    servicer.cycles = term.log
    answered = pytest.raises(Call, match="INTERNAL: the recording cannot be told: Queue odd: TypeError")
    with structlog.testing.capture_logs() as logged, answered:
        await anext(servicer.WatchCycles(WatchCyclesRequest(base_seconds=10), Context()))
    assert [(each["what"], each["object"]) for each in logged] == [("recording", "Queue odd")]
    assert "last with Queue odd: TypeError" in troubles.summary()
