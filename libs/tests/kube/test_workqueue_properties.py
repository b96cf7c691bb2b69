"""Whatever fails, takes long or is cut off: each key is worked on after it was last added, one at a time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadlines import within
from kai.kube.errors import TransportError
from kai.kube.workqueue import WorkQueue

pytestmark = pytest.mark.looptime

KEYS = st.sampled_from("ab")
#: What a call comes to, and after how many seconds.
CALLS = st.tuples(st.sampled_from(("done", "fails", "again", "changed")), st.sampled_from((3, 0.5, 0)))
DEEDS = st.one_of(
    st.tuples(st.just("add"), KEYS),
    st.tuples(st.just("add later"), KEYS),
    st.tuples(st.just("wait"), st.sampled_from((0.4, 2, 0, 90))),
    st.tuples(st.just("cut off"), st.none()),
)


class Work:
    """A queue, and who works on it; calls end as it was drawn, and well when all draws are used up."""

    def __init__(self, calls):
        self.queue = WorkQueue("test")
        self.calls = iter(calls)
        self.added, self.begun, self.at_once = {}, {}, set()
        self.clock = 0
        self.task = None

    def tick(self):
        """Two things at the same second have an order."""
        self.clock += 1
        return self.clock

    def add(self, key):
        self.added[key] = self.tick()
        self.queue.add(key)

    async def handle(self, key):
        assert key not in self.at_once
        self.at_once.add(key)
        self.begun[key] = self.tick()
        try:
            result, seconds = next(self.calls, ("done", 0))
            await asyncio.sleep(seconds)
        finally:
            self.at_once.discard(key)
        if result == "fails":
            raise TransportError("away")
        if result == "changed":
            self.add(key)
        return 1.0 if result == "again" else None

    def start(self):
        self.task = asyncio.create_task(self.queue.run(self.handle, workers=2))

    async def cut_off(self):
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task

    async def do(self, deed, of):
        match deed:
            case "add":
                self.add(of)
            case "add later":
                self.added[of] = self.tick()
                self.queue.add_after(of, 5.0)
            case "wait":
                await asyncio.sleep(of)
            case "cut off":
                await self.cut_off()
                self.start()


@given(deeds=st.lists(DEEDS, min_size=10, max_size=30), calls=st.lists(CALLS, min_size=10, max_size=10))
async def test_nothing_that_was_added_is_forgotten_or_done_by_two_at_once(deeds, calls):
    work = Work(calls)
    work.start()
    for deed, of in deeds:
        await work.do(deed, of)
        assert not work.task.done()
    async with within("all is worked on", times=20):
        await work.queue.join()
    assert not work.task.done()
    await work.cut_off()
    assert len(work.queue) == 0
    assert all(work.begun[key] > added for key, added in work.added.items())
