"""Times as the API and annotations have them."""

import time
from collections.abc import Iterator

import pytest

from kai.snapshot.times import seconds


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's clock shows the time of a zone fourteen hours ahead."""
    monkeypatch.setenv("TZ", "EAST-14")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29T12:00:00Z", 1795953600.0),
        ("2026-11-29T13:00:00+01:00", 1795953600.0),
        ("2026-11-29T12:00:00.25Z", 1795953600.25),
        ("2026-11-29T12:00:00", 1795953600.0),
        ("soon", 0.0),
        ("", 0.0),
        (None, 0.0),
        ("2026-11-29T12:00:00Z" + " " * 40, 0.0),
    ],
)
@pytest.mark.usefixtures("far_east")
def test_a_time_is_the_same_moment_wherever_it_is_read(text: str | None, moment: float) -> None:
    assert seconds(text) == moment
