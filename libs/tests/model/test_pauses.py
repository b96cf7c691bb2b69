"""Pauses double, up to the longest, however often."""

import pytest

from kai.model.pauses import doubled


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 0.5), (1, 1.0), (3, 4.0), (4, 7.0), (1024, 7.0), (10**9, 7.0)]
)
def test_a_pause_doubles_each_time_up_to_the_longest(times, seconds):
    assert doubled(0.5, times, most=7.0) == seconds
