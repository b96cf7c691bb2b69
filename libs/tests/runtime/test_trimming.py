"""Freed memory goes back to the system while a process is at rest, and not while it works."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import weakref

import pytest

from kai.model import quantity
from kai.runtime import trimming
from kai.runtime.trimming import COLLECTING, PERIOD_SECONDS, Collector, trim_at_rest, trimmer


@pytest.mark.skipif(trimmer() is None, reason="the C library keeps what it has")
def test_what_a_burst_of_objects_took_is_given_back_though_blocks_above_it_stay():
    program = """
        from kai.runtime.trimming import resident_mib as resident, trimmer
        small = resident()
        burst = [bytes(1000 + n % 7) for n in range(60_000)]
        kept = burst[::2000]
        large = resident()
        del burst
        left = resident()
        trimmer()()
        print(*(value - small for value in (large, left, resident())), len(kept))
    """
    large, left, trimmed = _told(program)[:3]
    assert left > 0.9 * large > 40.0  # or this test shows nothing
    assert trimmed < 0.2 * large


def _told(program):
    """The numbers that a program prints."""
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True)
    return [float(each) for each in told.stdout.split()]


def test_keys_of_objects_that_were_read_are_forgotten_though_all_is_out_of_garbage_collection():
    program = """
        import gc, sys, msgspec
        from kai.runtime.trimming import forget_keys
        read, many = msgspec.json.decode, "{%s}" % ",".join(f'"key-{n}": 0' for n in range(2000))
        read(many)
        forget_keys()
        gc.collect()
        gc.freeze()
        few = sys.getallocatedblocks()
        read(many)
        remembered = sys.getallocatedblocks() - few
        for _ in range(20):
            gc.collect()
        kept = sys.getallocatedblocks() - few
        forget_keys()
        print(remembered, kept, sys.getallocatedblocks() - few)
    """
    remembered, kept, left = _told(program)
    assert remembered > 300
    assert kept > 300  # or msgspec does so by itself
    assert left < 50


def test_names_of_attributes_that_were_looked_up_are_forgotten():
    program = """
        import sys
        from kai.runtime.trimming import forget_attributes
        class Told:
            pass
        def look_up():
            for name in [f"name-{n}" + "x" * (n % 40) for n in range(20_000)]:
                getattr(Told, name, None)
        look_up()
        forget_attributes()
        few = sys.getallocatedblocks()
        look_up()
        remembered = sys.getallocatedblocks() - few
        forget_attributes()
        print(remembered, sys.getallocatedblocks() - few)
    """
    remembered, left = _told(program)
    assert remembered > 300  # or Python keeps none
    assert left < 50


class _Circle:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


def _circle():
    return weakref.ref(_Circle())


@pytest.fixture
def no_collector():
    """Nothing is collected but when asked."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_what_refers_to_itself_is_collected_and_what_only_saves_work_forgotten():
    gone = _circle()
    quantity.parse("123m")
    assert gone() is not None
    Collector().collect()
    assert gone() is None
    assert not quantity.parse.cache_info().currsize


@pytest.mark.usefixtures("no_collector")
def test_who_has_much_to_look_through_looks_seldom():
    took = 0.25
    times = iter(each * took / COLLECTING for each in (0.0, 0.0, 0.9, 1.1, 1.1))
    cpu = iter([0.0, took, took, 2 * took])
    collector = Collector(clock=lambda: next(times), cpu_seconds=lambda: next(cpu))
    collector.collect()
    gone = _circle()
    collector.collect()
    assert gone() is not None
    collector.collect()
    assert gone() is None


@pytest.mark.usefixtures("no_collector")
def test_what_costs_nothing_is_forgotten_at_each_rest(monkeypatch):
    forgotten = []
    monkeypatch.setattr(trimming, "forget_attributes", lambda: forgotten.append(True))
    collector = Collector(clock=lambda: 0.0, cpu_seconds=iter([0.0, 1.0]).__next__)
    collector.collect()
    collector.collect()
    assert len(forgotten) == 2


@pytest.mark.usefixtures("no_collector")
def test_on_a_busy_machine_garbage_is_looked_for_no_less_often():
    took, waited = 0.02, 1.0  # of a core, and for one
    times = iter([0.0, waited, 30.0, 30.0 + waited])
    cpu = iter([0.0, took, took, 2 * took])
    collector = Collector(clock=lambda: next(times), cpu_seconds=lambda: next(cpu))
    collector.collect()
    gone = _circle()
    collector.collect()
    assert gone() is None


class _Process:
    """Whose work is told: seconds of CPU in each period."""

    def __init__(self, *works):
        self.collected, self.trimmed = [], []
        self._works = list(works)

    def cpu_seconds(self):
        period = int(asyncio.get_running_loop().time() / PERIOD_SECONDS)
        return sum(self._works[:period])

    async def run(self):
        trimming = asyncio.create_task(
            trim_at_rest(self._trim, collect=self._collect, cpu_seconds=self.cpu_seconds)
        )
        await asyncio.sleep(PERIOD_SECONDS * len(self._works) + 1)
        trimming.cancel()
        assert self.collected == self.trimmed
        return self.trimmed

    def _collect(self):
        self.collected.append(int(asyncio.get_running_loop().time() / PERIOD_SECONDS))

    def _trim(self):
        assert len(self.collected) == len(self.trimmed) + 1  # or what was collected is not given back
        self.trimmed.append(int(asyncio.get_running_loop().time() / PERIOD_SECONDS))


@pytest.mark.looptime
async def test_who_is_at_rest_gives_memory_back_each_period():
    assert await _Process(0.0, 1.0, 0.1).run() == [1, 2, 3]


@pytest.mark.looptime
async def test_who_works_keeps_what_he_will_ask_for_again_until_he_has_done():
    assert await _Process(0.0, PERIOD_SECONDS, 0.9 * PERIOD_SECONDS, 2 * PERIOD_SECONDS, 1.0).run() == [1, 5]


@pytest.mark.looptime
async def test_where_the_c_library_cannot_python_gives_back_what_it_can():
    collected = []
    trimming = asyncio.create_task(
        trim_at_rest(None, collect=lambda: collected.append(1), cpu_seconds=lambda: 0.0)
    )
    await asyncio.sleep(PERIOD_SECONDS + 1)
    trimming.cancel()
    assert collected == [1]
