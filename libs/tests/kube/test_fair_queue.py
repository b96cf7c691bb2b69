"""A queue whose owners take turns."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.kube.fair_queue import FairQueue

pytestmark = pytest.mark.looptime

OWNERS = st.sampled_from("abc")


async def all_of(queue):
    return [await queue.get() for _ in range(len(queue))]


async def test_owners_take_turns_and_keep_their_order():
    queue = FairQueue(capacity=10, each=10)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.put(item[0], item)
    assert await all_of(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_it_is_waited_for_the_first_item_and_for_the_last_to_be_done():
    queue = FairQueue(capacity=1, each=1)
    await queue.join()
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not getting.done()
    queue.put("a", 1)
    joining = asyncio.create_task(queue.join())
    assert await getting == 1
    await asyncio.sleep(1)
    assert not joining.done()
    queue.done()
    await joining


@given(st.lists(OWNERS, max_size=40), st.integers(1, 20), st.integers(1, 8))
def test_nothing_that_was_taken_in_is_lost_and_the_bounds_are_kept(owners, capacity, each):
    queue = FairQueue(capacity=capacity, each=each)
    taken = [(owner, number) for number, owner in enumerate(owners) if queue.put(owner, (owner, number))]
    counts = Counter(owner for owner, _ in taken)
    assert len(queue) == len(taken) <= capacity
    assert all(count <= each for count in counts.values())
    assert len(taken) == len(owners) or len(taken) == capacity or max(counts.values()) == each
    found = asyncio.run(all_of(queue))
    assert sorted(found) == sorted(taken)
    for owner in counts:
        assert [item for item in found if item[0] == owner] == [item for item in taken if item[0] == owner]
    for taken_by_now in range(1, len(found)):
        served = Counter(owner for owner, _ in found[:taken_by_now])
        waiting = {owner for owner in counts if served[owner] < counts[owner]}
        assert all(served[one] - served[other] <= 1 for one in counts for other in waiting)
