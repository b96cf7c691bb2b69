"""Freed memory goes back to the system while a process is at rest, and not while it works."""

import asyncio
import subprocess
import sys
import textwrap

import pytest

from kai.runtime.trimming import PERIOD_SECONDS, trim_at_rest, trimmer


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
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True)
    large, left, trimmed = map(float, told.stdout.split()[:3])
    assert left > 0.9 * large > 40.0  # or this test shows nothing
    assert trimmed < 0.2 * large


class _Process:
    """Whose work is told: seconds of CPU in each period."""

    def __init__(self, *works):
        self.trimmed = []
        self._works = list(works)

    def cpu_seconds(self):
        period = int(asyncio.get_running_loop().time() / PERIOD_SECONDS)
        return sum(self._works[:period])

    async def run(self):
        trimming = asyncio.create_task(trim_at_rest(self._trim, cpu_seconds=self.cpu_seconds))
        await asyncio.sleep(PERIOD_SECONDS * len(self._works) + 1)
        trimming.cancel()
        return self.trimmed

    def _trim(self):
        self.trimmed.append(int(asyncio.get_running_loop().time() / PERIOD_SECONDS))


@pytest.mark.looptime
async def test_who_is_at_rest_gives_memory_back_each_period():
    assert await _Process(0.0, 1.0, 0.1).run() == [1, 2, 3]


@pytest.mark.looptime
async def test_who_works_keeps_what_he_will_ask_for_again_until_he_has_done():
    assert await _Process(0.0, PERIOD_SECONDS, 0.9 * PERIOD_SECONDS, 2 * PERIOD_SECONDS, 1.0).run() == [1, 5]


async def test_where_the_c_library_cannot_nothing_is_tried():
    await trim_at_rest(None)
