"""How soon a cycle follows another."""

import itertools

import pytest

from kai_scheduler.pace import BUSY_SECONDS, QUIET_SECONDS, Pace


def rests(pace, cycles, *, took, apart=0.0, decided):
    """The rests after so many cycles, each beginning ``apart`` seconds after the rest before it."""
    now, found = 100.0, []
    for _ in range(cycles):
        found.append(pace.rest(started=now, ended=now + took, decided=decided))
        now += took + found[-1] + apart
    return found


@pytest.mark.parametrize(("decided", "longest"), [(True, BUSY_SECONDS), (False, QUIET_SECONDS)])
def test_in_busy_times_cycles_come_ever_more_seldom_down_to_a_few_each_second(decided, longest):
    found = rests(Pace(longest=1.0), 10, took=0.01, apart=0.03, decided=decided)
    assert all(one <= other for one, other in itertools.pairwise(found))
    assert found[:3] == pytest.approx([0.01, 0.02, 0.04])
    assert found[-1] == longest


@pytest.mark.parametrize("decided", [True, False])
def test_long_cycles_take_half_of_the_time(decided):
    assert rests(Pace(longest=1.0), 3, took=0.6, decided=decided) == pytest.approx([0.6] * 3)
    assert rests(Pace(longest=1.0), 3, took=3.0, decided=decided) == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("decided", [True, False])
def test_what_comes_after_a_quiet_time_is_looked_at_promptly(decided):
    pace = Pace(longest=1.0)
    rests(pace, 10, took=0.01, decided=False)
    assert pace.rest(started=200.0, ended=200.01, decided=decided) == pytest.approx(0.01)


def test_a_decision_among_cycles_in_vain_shortens_the_rest():
    pace = Pace(longest=1.0)
    rests(pace, 10, took=0.01, decided=False)
    assert rests(pace, 1, took=0.01, decided=True) == [BUSY_SECONDS]


def test_after_a_search_that_gave_way_somebody_waits_so_the_rest_is_short():
    pace = Pace(longest=1.0)
    assert pace.rest(started=100.0, ended=103.0, decided=False, gave_way=True) == BUSY_SECONDS
