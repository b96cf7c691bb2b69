"""Logs are read on from where they were read last, an event with all that follows it."""

import pytest

from e2e.soak.journal import Clock
from e2e.soak.watcher import Logs

INFO = "2026-01-31T12:00:00.5Z [info     ] leading    epoch=1 service=scheduler"
ERROR = "2026-01-31T12:00:01.5Z [error    ] cycle failed    service=scheduler"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "scheduler.log"


@pytest.fixture
def logs(tmp_path):
    clock = Clock()
    clock.started_at = 1_769_860_800.0  # 2026-01-31T12:00:00Z
    return Logs(tmp_path, clock)


def all_of(logs):
    return [*logs.fresh(), *logs.fresh()]


def test_an_event_has_its_time_its_level_and_its_process(log, logs):
    log.write_text(f"{INFO}\n")
    [line] = all_of(logs)
    assert (line.at, line.process, line.level) == (0.5, "scheduler", "info")


def test_what_follows_an_event_belongs_to_it(log, logs):
    log.write_text(f"{INFO}\n{ERROR}\nTraceback (most recent call last):\n  File x\nKeyError: 1\n")
    _, error = all_of(logs)
    assert error.level == "error"
    assert "KeyError: 1" in error.text


def test_an_event_is_read_once_and_whole(log, logs):
    log.write_text(INFO)
    assert not all_of(logs)
    with log.open("a") as file:
        file.write("\n")
    assert len(all_of(logs)) == 1
    assert not all_of(logs)


def test_lines_about_something_are_found_again(log, logs):
    log.write_text(f"{INFO}\n{ERROR}\n")
    assert logs.excerpts("cycle failed") == [f"{ERROR}  <scheduler>"]
