"""What is metered belongs to the block."""

import os
import time
from collections import Counter

import pytest

from e2e.bench.scale.meter import Meter
from kai_local.processes.records import ProcessRecord

SPENT_SECONDS = 0.3


def _spend() -> None:
    until = time.process_time() + SPENT_SECONDS
    while time.process_time() < until:
        pass


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Of a cluster whose only process is this one, and where asking the services takes its time."""

    async def asked(self: Meter) -> Counter:
        _spend()
        return Counter()

    itself = ProcessRecord(name="scheduler", state="running", pid=os.getpid())
    monkeypatch.setattr(Meter, "_processes", lambda self: [itself])
    monkeypatch.setattr(Meter, "_requests", asked)
    return Meter("scale")


async def test_what_is_spent_before_and_after_a_block_does_not_count(meter: Meter) -> None:
    async with meter.running() as reading:
        pass
    assert reading.services_cpu_seconds < SPENT_SECONDS / 2


async def test_what_is_spent_in_a_block_counts(meter: Meter) -> None:
    async with meter.running() as reading:
        _spend()
    assert reading.services_cpu_seconds == pytest.approx(SPENT_SECONDS, abs=SPENT_SECONDS / 2)
    assert 1 < reading.services_peak_proportional_mib < 1.1 * reading.services_peak_mib
