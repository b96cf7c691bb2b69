"""Work by key, in virtual time."""

import asyncio
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube.errors import TransportError
from kai.kube.workqueue import WorkQueue
from kai.kube.workqueue_metrics import QueueMetrics

pytestmark = pytest.mark.looptime


def now():
    return asyncio.get_running_loop().time()


async def working(queue, handler, *, until, workers=2):
    """Run the queue until a condition holds; virtual time makes the waiting free."""
    task = asyncio.create_task(queue.run(handler, workers=workers))
    try:
        await eventually(until, times=20)
    finally:
        task.cancel()
        await asyncio.wait([task])


def series(registry, name, **labels):
    return registry.get_sample_value(name, {"name": "test", "controller": "test", **labels})


def results(registry):
    return {
        result: registry.get_sample_value(
            "controller_runtime_reconcile_total", {"controller": "test", "result": result}
        )
        for result in ("success", "error", "requeue_after")
    }


async def test_what_it_does_is_told_in_the_words_of_controllers():
    registry = CollectorRegistry()
    queue, seen, begun, go_on = (
        WorkQueue("test", metrics=QueueMetrics(registry)),
        [],
        asyncio.Event(),
        asyncio.Event(),
    )

    async def handler(key):
        seen.append(key)
        if key == "slow":
            begun.set()
            await go_on.wait()
        if key == "bad" and seen.count("bad") == 1:
            raise TransportError("away")
        return 5.0 if key == "again" and seen.count("again") == 1 else None

    for key in ("slow", "bad", "again", "again"):
        queue.add(key)
    assert (series(registry, "workqueue_depth"), series(registry, "workqueue_adds_total")) == (3, 3)
    task = asyncio.create_task(queue.run(handler, workers=1))
    await begun.wait()
    assert series(registry, "workqueue_depth") == 2
    assert registry.get_sample_value("controller_runtime_active_workers", {"controller": "test"}) == 1
    assert series(registry, "workqueue_unfinished_work_seconds") > 0
    assert series(registry, "workqueue_longest_running_processor_seconds") > 0
    queue.add("slow")  # counts, though it waits for its own end
    assert series(registry, "workqueue_adds_total") == 4
    go_on.set()
    await queue.join()
    task.cancel()
    await asyncio.wait([task])
    assert results(registry) == {"success": 4, "error": 1, "requeue_after": 1}
    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "test"}) == 1
    assert series(registry, "workqueue_retries_total") == 1
    assert series(registry, "workqueue_adds_total") == 6  # with those that came back
    for name in ("workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"):
        assert series(registry, f"{name}_count") == 6
    counted = "controller_runtime_reconcile_time_seconds_count"
    assert registry.get_sample_value(counted, {"controller": "test"}) == 6
    assert registry.get_sample_value("controller_runtime_active_workers", {"controller": "test"}) == 0
    assert (
        registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "test"}) == 1
    )
    assert series(registry, "workqueue_unfinished_work_seconds") == 0


async def test_a_key_added_many_times_is_worked_on_once():
    queue, done = WorkQueue("test"), []

    async def handler(key):
        done.append(key)

    for _ in range(5):
        queue.add("a")
    queue.add("b")
    await working(queue, handler, until=lambda: len(queue) == 0)
    assert sorted(done) == ["a", "b"]


async def test_a_key_added_while_worked_on_is_worked_on_again_but_never_twice_at_a_time():
    queue, running, most, done = WorkQueue("test"), 0, 0, 0

    async def handler(key):
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        if done == 0:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(1)
        running -= 1
        done += 1

    queue.add("a")
    await working(queue, handler, until=lambda: done == 2, workers=5)
    assert (most, done) == (1, 2)


async def test_a_failure_is_tried_again_after_growing_pauses_of_at_most_a_minute():
    queue, times = WorkQueue("test"), []

    async def handler(key):
        times.append(now())
        raise TransportError("no")

    queue.add("a")
    await working(queue, handler, until=lambda: len(times) == 10)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    for pause, limit in zip(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert 0.75 * limit - 0.02 <= pause <= limit + 0.02


async def test_success_forgets_the_failures():
    queue, times, fail = WorkQueue("test"), [], [True, True, False, True, False]

    async def handler(key):
        times.append(now())
        if fail[len(times) - 1]:
            raise ValueError("a defect counts as a failure")
        if len(times) == 3:
            queue.add(key)

    queue.add("a")
    await working(queue, handler, until=lambda: len(times) == 5)
    assert times[4] - times[3] <= 1.02


async def test_one_failing_key_does_not_stop_the_others():
    queue, done = WorkQueue("test"), []

    async def handler(key):
        if key == "bad":
            raise TransportError("no")
        done.append(key)

    for key in ("bad", "a", "b"):
        queue.add(key)
    await working(queue, handler, until=lambda: len(done) == 2, workers=1)


async def test_delayed_keys_wait_and_the_earliest_time_wins():
    queue, times = WorkQueue("test"), {}

    async def handler(key):
        times[key] = now()

    started = now()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    queue.add_after("b", 50)
    queue.add("b")
    await working(queue, handler, until=lambda: len(times) == 2)
    assert times["a"] - started == pytest.approx(10, abs=0.05)
    assert times["b"] - started < 0.1


async def test_a_handler_can_ask_to_see_its_key_again():
    queue, times = WorkQueue("test"), []

    async def handler(key):
        times.append(now())
        return 5.0 if len(times) < 3 else None

    queue.add("a")
    await working(queue, handler, until=lambda: len(times) == 3)
    assert times[2] - times[0] == pytest.approx(10, abs=0.1)


async def test_what_a_run_did_not_finish_is_done_by_the_next():
    queue, begun, done = WorkQueue("test"), [], []

    async def cut_off(key):
        begun.append(key)
        if key == "failed":
            raise TransportError("away")
        if key == "later":
            return 30.0
        if key == "changed":
            queue.add(key)
        return await asyncio.Event().wait()

    async def handler(key):
        done.append(key)

    keys = ["failed", "later", "cut off", "changed", "not begun"]
    queue.add_after("due", 30)
    for key in keys:
        queue.add(key)
    await working(queue, cut_off, until=lambda: len(begun) == 4, workers=2)
    assert "not begun" not in begun
    await working(queue, handler, until=lambda: len(queue) == 0, workers=2)
    await queue.join()
    assert sorted(done) == sorted([*keys, "due"])
    queue.add("changed")
    await working(queue, handler, until=lambda: len(queue) == 0)
    assert done.count("changed") == 2


async def test_join_waits_for_everything_that_was_added():
    queue, done = WorkQueue("test"), []

    async def handler(key):
        await asyncio.sleep(3)
        done.append(key)

    queue.add("a")
    queue.add_after("b", 7)
    task = asyncio.create_task(queue.run(handler))
    await queue.join()
    assert sorted(done) == ["a", "b"]
    task.cancel()
    await asyncio.wait([task])
