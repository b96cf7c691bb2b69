"""Recorded cycles are decided again as they come, and what comes out otherwise is told."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from deadlines import eventually
from kai_insight import checker
from kai_insight.checker import Checker
from kai_insight.metrics import ReplayMetrics
from services.tests.insight.recording import Recording, without_decisions


class Checking:
    def __init__(self):
        self.registry = CollectorRegistry()
        self.checker = Checker("default", ReplayMetrics(self.registry))

    def put(self, *entries):
        for entry in entries:
            self.checker.put(entry)

    def counted(self):
        """Cycles that were decided again, that came out otherwise, and that were passed over."""
        value = self.registry.get_sample_value
        return (
            value("kai_replay_cycles_total"),
            value("kai_replay_differences_total", {"shard": "default"}) or 0,
            value("kai_replay_skipped_cycles_total"),
        )

    async def until(self, *counted):
        await eventually(self.counted, lambda found: found == counted)


@pytest.fixture
async def checking():
    made = Checking()
    yield made
    await made.checker.close()


@pytest.fixture
def recording():
    return Recording()


async def test_all_that_follows_a_base_is_decided_again(checking, recording):
    checking.put(recording.base(), recording.cycle(), recording.cycle(), recording.base(), recording.cycle())
    await checking.until(3, 0, 0)


async def test_a_cycle_that_comes_out_otherwise_is_told_with_what_differs(checking, recording):
    with capture_logs() as logged:
        checking.put(recording.base(), without_decisions(recording.cycle()))
        await checking.until(1, 1, 0)
    (line,) = logged
    assert (line["log_level"], line["cycle"]) == ("error", 1)
    assert line["differences"] == ["bind of default/job-1-0 to n: decided now, not then"]


async def test_what_follows_one_that_came_out_otherwise_waits_for_the_next_base(checking, recording):
    base, first, second = recording.base(), recording.cycle(), recording.cycle()
    again = recording.base()
    checking.put(base, without_decisions(first), second, again, recording.cycle())
    await checking.until(2, 1, 1)


async def test_a_cycle_that_does_not_follow_is_passed_over(checking, recording):
    base = recording.base()
    recording.cycle()
    checking.put(base, recording.cycle())
    await checking.until(0, 0, 1)


async def test_where_too_much_waits_the_rest_is_passed_over_up_to_the_next_base(
    checking, recording, monkeypatch
):
    monkeypatch.setattr(checker, "MOST_WAITING_BYTES", 1)
    checking.put(recording.base(), recording.cycle(), recording.cycle(), recording.base())
    assert checking.counted() == (0, 0, 2)
    monkeypatch.undo()
    checking.put(recording.cycle())
    await checking.until(1, 0, 2)


async def test_a_base_larger_than_what_may_wait_is_looked_at_with_what_follows(
    checking, recording, monkeypatch
):
    entries = [recording.base(), recording.cycle(), recording.base(), recording.cycle(), recording.cycle()]
    monkeypatch.setattr(checker, "MOST_WAITING_BYTES", len(entries[2].data) - 1)
    checking.put(*entries)
    await checking.until(2, 0, 1)


async def test_a_base_larger_than_what_may_wait_takes_the_place_of_no_cycles_before_it(
    checking, recording, monkeypatch
):
    checking.put(recording.base())
    checking.put(recording.cycle())
    await checking.until(1, 0, 0)
    entries = [recording.cycle(), recording.base(), recording.cycle()]
    monkeypatch.setattr(checker, "MOST_WAITING_BYTES", len(entries[1].data) - 1)
    checking.put(*entries)
    await checking.until(3, 0, 0)


async def test_what_another_release_wrote_is_passed_over_and_is_no_difference(checking, recording):
    base, cycle = recording.base(), recording.cycle()
    with capture_logs() as logged:
        checking.put(base, replace(cycle, data=b'{"number": "one"}'))
        await checking.until(0, 0, 1)
    assert [line["log_level"] for line in logged] == ["warning"]
