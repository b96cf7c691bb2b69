"""How soon a cycle follows another."""

import itertools

import pytest

from kai_scheduler.pace import QUIET_SECONDS, Pace


def rests(pace, cycles, *, took, apart, decided):
    """The rests after so many cycles, each beginning ``apart`` seconds after the rest before it."""
    now, found = 0.0, []
    for _ in range(cycles):
        found.append(pace.rest(started=now, ended=now + took, decided=decided))
        now += took + found[-1] + apart
    return found


def test_cycles_that_decide_take_half_of_the_time():
    assert rests(Pace(longest=1.0), 5, took=0.04, apart=0.0, decided=True) == pytest.approx([0.04] * 5)
    assert rests(Pace(longest=1.0), 2, took=3.0, apart=0.0, decided=True) == pytest.approx([1.0] * 2)


def test_cycles_in_vain_come_ever_more_seldom_down_to_a_few_each_second():
    found = rests(Pace(longest=1.0), 10, took=0.01, apart=0.03, decided=False)
    assert all(one <= other for one, other in itertools.pairwise(found))
    assert found[:2] == pytest.approx([0.02, 0.04])
    assert found[-1] == QUIET_SECONDS


def test_long_cycles_in_vain_rest_as_long_as_they_took():
    assert rests(Pace(longest=1.0), 3, took=0.6, apart=0.0, decided=False) == pytest.approx([0.6] * 3)


def test_a_decision_ends_the_slow_pace():
    pace = Pace(longest=1.0)
    rests(pace, 10, took=0.01, apart=0.0, decided=False)
    assert pace.rest(started=100.0, ended=100.01, decided=True) == pytest.approx(0.01)


def test_what_comes_after_a_quiet_time_is_looked_at_promptly():
    pace = Pace(longest=1.0)
    rests(pace, 10, took=0.01, apart=0.0, decided=False)
    assert pace.rest(started=100.0, ended=100.01, decided=False) == pytest.approx(0.02)
