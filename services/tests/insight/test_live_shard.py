"""A shard is looked at while cycles go on: as it is, and as it changes."""

import asyncio
import threading
from contextlib import aclosing

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually, within
from kai.live.search import search
from kai_insight.checker import Checker
from kai_insight.live import shard as live_shard
from kai_insight.live.live import WAITING, Live
from kai_insight.live.shard import NoState
from kai_insight.metrics import ReplayMetrics
from libs.tests.engine.builders import a_node
from services.tests.insight.recording import Recording, without_decisions


class Looked:
    """A checker, and what is seen of the shard that it follows."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.live = Live()
        self.checker = Checker("default", ReplayMetrics(self.registry), live=self.live)
        self.shard = self.live.shards["default"]
        self.recording = Recording()

    async def put(self, *entries):
        """Have them decided again."""
        cycles = sum(not entry.base for entry in entries)
        goal = self._decided() + cycles
        for entry in entries:
            self.checker.put(entry)
        await eventually(self._decided, lambda found: found >= goal)

    def _decided(self):
        return self.registry.get_sample_value("kai_replay_cycles_total")

    async def begin(self):
        await self.put(self.recording.base(), self.recording.cycle())

    async def frame(self, sight=None):
        seen = await self.shard.frame(sight)
        return seen.version, msgspec.json.decode(seen.data)


@pytest.fixture
async def looked():
    found = Looked()
    yield found
    await found.checker.close()


async def test_before_there_is_a_state_the_reason_is_told(looked):
    assert (looked.shard.glance.version, looked.shard.glance.reason) == ("", WAITING)
    with pytest.raises(NoState, match="its next base is waited for"):
        await looked.shard.frame(None)


async def test_who_waits_for_his_turn_as_following_ends_is_told_so(looked):
    await looked.begin()
    busy, done = threading.Event(), threading.Event()

    def held(course, board):
        busy.set()
        done.wait()

    first = asyncio.create_task(looked.shard.look(held))
    await eventually(busy.is_set)
    second = asyncio.create_task(looked.shard.frame(None))
    await asyncio.sleep(0)
    await looked.checker.close()
    try:
        async with within("it is told"):
            with pytest.raises(NoState, match="does not follow the shard any more"):
                await second
    finally:
        done.set()
    await first


async def test_who_gives_up_waiting_is_not_told_anything_else(looked):
    await looked.begin()
    asks = asyncio.create_task(looked.shard.frame(None))
    await asyncio.sleep(0)
    asks.cancel()
    looked.live.close(looked.shard)
    with pytest.raises(asyncio.CancelledError):
        await asks


async def test_a_frame_is_of_the_last_cycle(looked):
    await looked.begin()
    version, frame = await looked.frame()
    assert frame["version"] == version
    assert frame["nodes"]["name"] == ["n"]
    assert frame["slots"] == [0, -1, -1, -1, -1, -1, -1, -1]
    assert frame["queues"]["gpu"]["fairShare"] == [1]


async def test_a_base_alone_can_be_looked_at_and_cycles_go_on_after_it(looked):
    looked.recording.cycle()
    looked.checker.put(looked.recording.base())
    await eventually(lambda: looked.shard.glance.version)
    _, frame = await looked.frame()
    assert frame["slots"][0] == 0
    assert frame["queues"]["gpu"]["fairShare"] == [1]
    await looked.put(looked.recording.cycle(), looked.recording.cycle())
    _, frame = await looked.frame()
    assert sum(slot >= 0 for slot in frame["slots"]) == 3


async def test_changes_come_to_who_follows_and_a_base_in_between_is_none(looked):
    await looked.begin()
    version, _ = await looked.frame()
    async with aclosing(looked.shard.changes(None, version)) as changes:
        first = asyncio.ensure_future(anext(changes))
        await looked.put(looked.recording.base(), looked.recording.cycle())
        async with within("a change is told"):
            change = msgspec.json.decode(await first)
    assert change["nodes"] == [[0, 0, [0, 1, -1, -1, -1, -1, -1, -1]]]
    assert change["groups"][-1][:1] == [1]
    assert change["queues"]["gpu"]["allocated"] == [2]
    again, _ = await looked.frame()
    assert again == change["version"]


async def test_whoever_was_away_is_told_what_he_missed(looked):
    await looked.begin()
    version, _ = await looked.frame()
    for _ in range(3):
        await looked.put(looked.recording.cycle())
        await looked.frame()
    async with aclosing(looked.shard.changes(None, version)) as changes, within("all is told"):
        told = [msgspec.json.decode(await anext(changes)) for _ in range(3)]
    assert [len(each["nodes"]) for each in told] == [1, 1, 1]
    assert told[-1]["version"] == (await looked.frame())[0]


async def test_who_is_too_far_behind_or_of_another_process_begins_anew(looked, monkeypatch):
    monkeypatch.setattr("kai.live.views.MOST_CHANGES", 1)
    await looked.begin()
    version, _ = await looked.frame()
    for _ in range(2):
        await looked.put(looked.recording.cycle())
        await looked.frame()
    for each in (version, "other/0", "", f"{version}0000", "x" * 500):
        async with within("it ends"):
            assert [told async for told in looked.shard.changes(None, each)] == []


async def test_who_sees_other_namespaces_follows_another_view(looked):
    await looked.begin()
    version, _ = await looked.frame()
    async with within("it ends"):
        assert [told async for told in looked.shard.changes(frozenset(), version)] == []


async def test_silence_is_broken_now_and_then(looked):
    await looked.begin()
    version, _ = await looked.frame()
    async with aclosing(looked.shard.changes(None, version, heartbeat=0.01)) as changes, within("a sign"):
        assert await anext(changes) is None


async def test_nodes_that_come_end_what_is_followed(looked):
    await looked.begin()
    version, _ = await looked.frame()
    changes = looked.shard.changes(None, version)
    following = asyncio.ensure_future(anext(changes, "anew"))
    looked.recording.add(a_node("m", gpus=8))
    await looked.put(looked.recording.cycle())
    async with within("it ends"):
        assert await following == "anew"
    _, frame = await looked.frame()
    assert frame["nodes"]["name"] == ["m", "n"]


async def test_nothing_is_worked_out_while_nobody_looks(looked, monkeypatch):
    refreshed = []
    before = live_shard.Board.refresh

    def refresh(board, *given, **more):
        refreshed.append(1)
        return before(board, *given, **more)

    monkeypatch.setattr(live_shard.Board, "refresh", refresh)
    await looked.begin()
    await looked.put(*(looked.recording.cycle() for _ in range(4)))
    assert refreshed == []
    await looked.frame()
    await looked.frame()
    assert refreshed == [1]


async def test_what_is_known_stays_to_be_looked_at_when_a_cycle_comes_out_otherwise(looked):
    await looked.begin()
    looked.checker.put(without_decisions(looked.recording.cycle()))
    await eventually(lambda: looked.shard.glance.reason)
    assert "came out otherwise; the next base is waited for" in looked.shard.glance.reason
    _, frame = await looked.frame()
    assert frame["nodes"]["name"] == ["n"]
    looked.checker.put(looked.recording.base())
    await eventually(lambda: looked.shard.glance.reason, lambda reason: not reason)


async def test_what_fails_leaves_nothing_half_done(looked, monkeypatch):
    await looked.begin()
    version, _ = await looked.frame()
    await looked.put(looked.recording.cycle())
    with monkeypatch.context() as broken:
        broken.setattr(live_shard.Board, "_sums", lambda board, *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await looked.frame()
    after, frame = await looked.frame()
    assert after.rpartition("/")[0] != version.rpartition("/")[0]
    assert sum(slot >= 0 for slot in frame["slots"]) == 2


async def test_who_no_longer_follows_a_shard_says_so(looked):
    await looked.begin()
    version, _ = await looked.frame()
    following = asyncio.ensure_future(anext(looked.shard.changes(None, version), "anew"))
    await asyncio.sleep(0)
    looked.live.close(looked.shard)
    async with within("it ends"):
        assert await following == "anew"
    assert looked.live.shards == {}
    with pytest.raises(NoState):
        await looked.shard.look(lambda course, board: search(course.state, board, "n", None, limit=1))


async def test_the_default_shard_is_the_first_of_all(looked):
    for name in ("silver", "gold"):
        looked.live.open(name, run=asyncio.to_thread)
    assert [*looked.live.shards] == ["default", "gold", "silver"]
    looked.live.close(looked.shard)
    assert [*looked.live.shards] == ["gold", "silver"]


async def test_one_may_go_while_somebody_looks_at_all(looked):
    for each in looked.live.shards.values():
        looked.live.close(each)
    assert looked.live.shards == {}
