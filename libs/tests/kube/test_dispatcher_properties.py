"""Whatever fails, is given up or comes at once: nothing is lost, sent twice, overtaken or too much."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kai.kube import errors
from kai.kube.dispatcher import RANKS
from kai.kube.exchange import Exchange
from kai.kube.flight_limit import LEAST
from kai.kube.metrics import RequestMetrics
from kai.kube.ranks import Rank
from kai.kube.request import MERGE_PATCH, Request
from kai.model.merge_patch import merged

pytestmark = pytest.mark.looptime

#: How attempts at a write end, the last one over and over.
FATES = st.sampled_from(
    (("done",), ("busy", "done"), ("busy", "busy", "done"), ("refused",), ("busy", "refused"))
)
WRITES = st.tuples(
    st.sampled_from(RANKS),
    st.integers(0, 5),  # which object
    FATES,
    st.sampled_from((0.2, 1, 5)),  # seconds that each attempt takes
    st.sampled_from((None, None, None, 0, 0.3, 2)),  # seconds after which its caller gives up
)
#: Bursts of writes, and the seconds before each.
LIVES = st.lists(st.tuples(st.sampled_from((0, 0.1, 3)), st.lists(WRITES, max_size=10)), max_size=6)


class Write:
    """A write as its caller sees it."""

    def __init__(self, number, rank, thing, fate, seconds, patience, called):
        self.number, self.rank, self.thing, self.fate = number, rank, thing, fate
        self.seconds, self.patience, self.called = seconds, patience, called
        self.gives_up = False
        self.attempts = 0
        #: Attempts at other writes that this one was a part of count as well.
        self.sent_at = []
        self.outcome = None
        self.ended = float("inf")

    @property
    def object(self):
        return (self.rank, self.thing)


class Life:
    """A dispatcher and the server behind it, which keeps what was patched."""

    def __init__(self):
        self.exchange = Exchange(SimpleNamespace(server="test"), RequestMetrics(CollectorRegistry()))
        self.exchange.once = self.once
        self.limit = self.exchange.dispatcher._limit
        self.writes, self.flying, self.state, self.order = {}, [], {}, {}
        #: When the server pushed back; who had a place then may begin with less room than there was for it.
        self.busy_at = -1.0

    @property
    def now(self):
        return asyncio.get_running_loop().time()

    async def once(self, request):
        body = json.loads(request.data)
        parts = [self.writes[int(key)] for key in body["status"] if key.isdecimal()]
        leader = min(parts, key=lambda write: write.number)
        self.begins(leader, parts)
        self.flying.append(leader)
        fate = leader.fate[min(leader.attempts, len(leader.fate) - 1)]
        leader.attempts += 1
        try:
            await asyncio.sleep(leader.seconds)
        finally:
            self.flying.remove(leader)
        if fate == "busy":
            self.busy_at = self.now
            raise errors.TooManyRequests("busy", status=429)
        if fate == "refused":
            raise errors.Conflict("no", status=409)
        self.state[leader.object] = merged(self.state.get(leader.object, {}), body)
        return request.data

    def begins(self, leader, parts):
        """Look at everything that must hold when something is sent."""
        flying = [write.rank for write in self.flying]
        if leader.rank in flying and self.busy_at < self.now:  # it has not the place of its rank
            assert len(flying) < self.limit.current, "more are under way than the limit"
            late = [write for write in self.writes.values() if self.could_have_gone(write, leader)]
            assert not late, "something more urgent waits"
        assert leader.object not in [write.object for write in self.flying], "two of one object at once"
        for part in parts:
            assert part.object == leader.object, "two objects in one write"
            assert part.rank is Rank.STATUS or part is leader, "joined, and no status"
            assert part.outcome in (None, "given up"), "sent when it was done with"
            part.sent_at.append(self.now)
        assert any(part.outcome is None for part in parts), "sent when all had given up"
        if leader.attempts == 0:
            before = self.order.setdefault(leader.object, [])
            assert all(number < leader.number for number in before), "overtaken"
            before += [part.number for part in parts]

    def could_have_gone(self, write, leader):
        """Whether it came before this moment, is more urgent, and waits for nothing but a place."""
        return (
            write.rank < leader.rank
            and write.called < self.now
            and not write.sent_at
            and write.outcome is None
            and not write.gives_up  # who does at this very moment may not have come to tell so yet
            and not any(
                other.object == write.object and other.ended >= self.now and other.number < write.number
                for other in self.writes.values()
            )
        )

    async def write(self, write):
        number = str(write.number)
        status = write.rank is Rank.STATUS
        request = Request(
            verb="patch", resource="things/status" if status else "things", subject=str(write.thing),
            path=f"/things/{write.thing}", method="PATCH", content_type=MERGE_PATCH, rank=write.rank,
            data=json.dumps({"status": {number: True, "last": write.number}}).encode(),
        )  # fmt: skip
        call = asyncio.ensure_future(self.exchange.call(request, deadline=1000.0))

        def give_up():
            write.gives_up = True
            call.cancel()

        if write.patience is not None:
            asyncio.get_running_loop().call_later(write.patience, give_up)
        try:
            answer = await call
        except asyncio.CancelledError:
            write.outcome = "given up"
        except errors.Conflict:
            write.outcome = "refused"
        else:
            write.outcome = "done"
            assert json.loads(answer)["status"][number], "the answer to another write"
        finally:
            write.ended = self.now

    async def live(self, bursts):
        numbers = iter(range(10_000))
        async with asyncio.TaskGroup() as group:
            for pause, burst in bursts:
                await asyncio.sleep(pause)
                for drawn in burst:
                    write = Write(next(numbers), *drawn, self.now)
                    self.writes[write.number] = write
                    group.create_task(self.write(write))

    def check(self):
        """Look at what must hold when all is over."""
        for write in self.writes.values():
            assert write.outcome is not None, "lost"
            status = self.state.get(write.object, {}).get("status", {})
            if write.outcome == "done":
                assert write.sent_at
                assert status[str(write.number)], "done, and not written"
                assert status["last"] >= write.number, "an older one has the last word"
            if write.rank is not Rank.STATUS and write.outcome != "given up":
                assert write.attempts == len(write.fate), "sent more or less often than it had to be"
        dispatcher = self.exchange.dispatcher
        assert not dispatcher._lines
        assert not dispatcher._joinable
        assert not any(dispatcher._waiting.values())
        assert not any(dispatcher._flying.values())


#: A status comes in the moment in which the one before it is given up.
RELAY = [
    (0, [(Rank.STATUS, 3, ("done",), 0.2, 0)]),
    (0, [(Rank.NEED, 0, ("done",), 0.2, 0)]),
    (0, [(Rank.STATUS, 3, ("done",), 0.2, None)]),
]


@settings(max_examples=40)
@given(bursts=LIVES)
@example(bursts=RELAY)
async def test_nothing_is_lost_sent_twice_overtaken_or_too_much(bursts):
    life = Life()
    await life.live(bursts)
    life.check()


@settings(max_examples=6)
@given(writes=st.lists(WRITES, min_size=100, max_size=200))
async def test_it_holds_where_far_more_comes_than_there_is_room_for(writes):
    life = Life()
    life.limit.current = LEAST
    spread = [(rank, number, *rest) for number, (rank, _, *rest) in enumerate(writes)]
    await life.live([(0, spread[:50]), (0.1, spread[50:])])
    life.check()
