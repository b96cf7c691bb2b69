import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1m1s1ms", 61.001),
        ("-5m", -300),
        ("+5m", 300),
        ("250us", 250e-6),
        ("250µs", 250e-6),
        ("1d", 86_400),
        ("1w2d", 9 * 86_400),
        ("1y", 365 * 86_400),
    ],
)
def test_durations_are_read_in_seconds(text, seconds):
    assert duration.parse(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "5", "-", "h", "1 h", "1h ", "one hour", "1h30", "1,5h", "1M", "--1s", "1e3s", "300y"]
)
def test_what_is_no_duration_is_rejected_with_an_example(text):
    with pytest.raises(duration.InvalidDuration, match="for example"):
        duration.parse(text)


def test_fields_of_the_api_take_no_days():
    with pytest.raises(duration.InvalidDuration, match="ms, s, m or h"):
        duration.parse("1d", days=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (5400, "1h30m0s"),
        (90, "1m30s"),
        (1.5, "1.5s"),
        (-60, "-1m0s"),
        (2e-6, "2µs"),
    ],
)
def test_durations_are_written_as_go_writes_them(seconds, text):
    assert duration.render(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_what_was_written_reads_back_the_same(micros):
    assert duration.parse(duration.render(micros / 1e6), days=False) == pytest.approx(micros / 1e6, abs=1e-6)
