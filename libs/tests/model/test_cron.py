"""Cron expressions."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model.cron import CronSchedule, InvalidCron

NOW = datetime(2030, 1, 2, 12, 30, tzinfo=UTC).timestamp()  # a Wednesday


def utc(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "previous"),
    [
        ("* * * * *", (2030, 1, 2, 12, 30)),
        ("*/20 * * * *", (2030, 1, 2, 12, 20)),
        ("45 12 * * *", (2030, 1, 1, 12, 45)),
        ("0 9-17/4 * * *", (2030, 1, 2, 9, 0)),
        ("0 0 1 * *", (2030, 1, 1, 0, 0)),
        ("0 0 31 * *", (2029, 12, 31, 0, 0)),
        ("0 0 29 2 *", (2028, 2, 29, 0, 0)),
        ("0 0 * * sun", (2029, 12, 30, 0, 0)),
        ("0 0 * * 7", (2029, 12, 30, 0, 0)),
        ("0 0 * jun-aug fri", (2029, 8, 31, 0, 0)),
        ("0 0 15 * mon", (2029, 12, 31, 0, 0)),
        ("5,35 12 * * *", (2030, 1, 2, 12, 5)),
        ("@hourly", (2030, 1, 2, 12, 0)),
        ("@yearly", (2030, 1, 1, 0, 0)),
    ],
)
def test_when_a_cron_expression_was_last_due(text, previous):
    assert CronSchedule.parse(text).previous(NOW) == utc(*previous)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "x * * * *",
        "*/0 * * * *",
        "5-1 * * * *",
        "0 0 31 2 *",
    ],
)
def test_what_is_no_cron_expression_is_rejected_with_an_example(text):
    with pytest.raises(InvalidCron, match="for example"):
        CronSchedule.parse(text)


@given(
    st.sampled_from(["*/7 3-5 * * *", "0 0 1,15 * *", "30 6 * * 1-5", "@weekly"]),
    st.integers(0, 2_000_000_000),
)
def test_the_last_time_due_is_due_and_not_in_the_future(text, now):
    schedule = CronSchedule.parse(text)
    previous = schedule.previous(now)
    assert previous <= now
    assert schedule.previous(previous) == previous
    assert previous == 0 or schedule.previous(previous - 1) < previous
