"""What is seen of threads that are looked at."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kai.observe import profiler
from kai.observe.profiler import Profile


@contextmanager
def a_thread(function, *, name):
    """A thread that runs the function over and over while the block does."""
    ending = threading.Event()

    def run():
        while not ending.is_set():
            function()

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield ending
    finally:
        ending.set()
        thread.join()


def spin():
    return sum(range(2000))


def taken(seconds=0.3, **options) -> Profile:
    return profiler.take(seconds, stop=threading.Event(), **options)


def stacks_of(profile, name) -> Iterator[tuple[str, ...]]:
    return (stack for stack in profile.stacks if stack[0] == name)


def test_a_busy_thread_is_seen_where_it_is():
    with a_thread(spin, name="busy"):
        profile = taken()
    own = f"{__name__}.spin"
    seen = sum(count for stack, count in profile.stacks.items() if stack[0] == "busy" and stack[-1] == own)
    assert seen > profile.looks / 2
    stack = next(stack for stack in stacks_of(profile, "busy") if stack[-1] == own)
    assert stack.index("threading.Thread.run") < stack.index(own)
    assert any(line.startswith("busy;threading.") for line in profile.collapsed().splitlines())
    ranked = [line.split()[-1] for line in profile.top().splitlines()[2:]]
    # Threads of whoever runs the tests may be at work, too.
    assert own in ranked[:3]


def test_a_thread_that_waits_is_no_work_and_the_looking_one_is_left_out():
    profile = taken(0.1)
    assert not any("profiler.take" in function for stack in profile.stacks for function in stack)
    waiting = Profile(1.0, 100, {("pool", "a.f", "threading.Condition.wait"): 100, ("loop", "a.g"): 100})
    head, _, *lines = waiting.top().splitlines()
    assert head == "1.0 s, 100 looks at 2 threads, which waited 50.0 % of their time"
    assert [line.split()[-1] for line in lines] == ["a.g"]


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [
        ({("t", "a.f", "a.g"): 30, ("t", "a.f"): 10}, ["10.0 % 40.0 % a.f", "30.0 % 30.0 % a.g"]),
        ({("t", "a.f", "a.f", "a.f"): 50}, ["50.0 % 50.0 % a.f"]),
        ({("t", "a.f"): 100, ("u", "a.f"): 100}, ["200.0 % 200.0 % a.f"]),
    ],
)
def test_the_table_counts_each_function_once_per_stack(stacks, expected):
    lines = Profile(1.0, 100, stacks).top().splitlines()[2:]
    assert sorted(" ".join(line.split()) for line in lines) == sorted(expected)


def test_it_ends_when_it_is_told_to():
    stop = threading.Event()
    stop.set()
    assert profiler.take(3600, stop=stop).looks == 0


def test_what_is_kept_has_an_end(monkeypatch):
    monkeypatch.setattr(profiler, "MOST_STACKS", 1)
    monkeypatch.setattr(profiler, "DEEPEST", 3)
    depth = 50

    def deep(left):
        return sys._getframe() if left == 0 else deep(left - 1)

    frames = iter([{1: deep(depth)}, {1: sys._getframe()}, {1: sys._getframe()}])
    stop = threading.Event()

    def look():
        try:
            return next(frames)
        except StopIteration:
            stop.set()
            return {}

    profile = profiler.take(3600, stop=stop, frames=look)
    assert profile.stacks[profiler.OTHERS] == 2
    (stack,) = (stack for stack in profile.stacks if stack != profiler.OTHERS)
    assert len(stack) == 1 + 3
    assert stack[-1].endswith("deep")
