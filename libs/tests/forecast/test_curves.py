"""Curves against tables that were worked out by hand, and what they say of a run that has begun."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.forecast.curves import Curve, Span


def a_curve(*seconds):
    """Numbers ended; those in a list go on."""
    return Curve.of(
        Span(float(each[0]), False) if isinstance(each, list) else Span(float(each), True) for each in seconds
    )


def test_a_curve_of_runs_that_all_ended_is_their_share_that_lasts_longer():
    curve = a_curve(10, 20, 20, 40)
    assert [curve.longer(at) for at in (0, 9, 10, 20, 39, 40, 99)] == [1, 1, 0.75, 0.25, 0.25, 0, 0]


def test_runs_that_go_on_count_until_then():
    """Six at risk at 6 h, of whom one goes on; then of 4, of 3 and of 1 one ends:

    1 - 1/6 = 5/6;  5/6 * (1 - 1/4) = 5/8;  5/8 * (1 - 1/3) = 5/12;  5/12 * (1 - 1/1) = 0.
    """
    curve = a_curve(6, [6], 10, 13, [16], 22)
    assert curve.ends == (6, 10, 13, 22)
    assert curve.left == pytest.approx((5 / 6, 5 / 8, 5 / 12, 0))


def test_remission_times_of_the_textbook_come_out_as_printed():
    """Freireich's 21 patients with 6-mercaptopurine, in weeks."""
    curve = a_curve(
        6, 6, 6, [6], 7, [9], 10, [10], [11], 13, 16, [17], [19], [20], 22, 23, [25], [32], [32], [34], [35]
    )
    assert curve.ends == (6, 7, 10, 13, 16, 22, 23)
    assert curve.left == pytest.approx((0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448), abs=0.0005)


def test_what_has_run_already_lasts_at_least_so_long():
    curve = a_curve(10, 20, 30, 40)
    assert [curve.draw(0, chance) for chance in (0.99, 0.75, 0.5, 0.25, 0.01)] == [10, 10, 20, 30, 40]
    assert [curve.draw(20, chance) for chance in (0.99, 0.5, 0.49, 0.01)] == [30, 30, 40, 40]


def test_beyond_the_last_known_end_nothing_is_made_up():
    curve = a_curve(10, 20, [50], [50])
    assert [curve.draw(0, chance) for chance in (0.9, 0.6, 0.49)] == [10, 20, None]
    assert curve.draw(30, 0.9) is None
    assert a_curve([10], [20]).draw(0, 0.5) is None
    assert a_curve(10).draw(10, 0.5) is None


def test_how_many_runs_lasted_longer_is_known():
    curve = a_curve(10, [20], 20, 30)
    assert [curve.outlasting(at) for at in (0, 10, 19, 20, 30)] == [4, 3, 3, 1, 0]


SPANS = st.lists(st.builds(Span, st.integers(0, 50).map(float), st.booleans()), min_size=1, max_size=40)


@given(spans=SPANS, ran=st.integers(0, 60), seed=st.integers(0, 9))
def test_what_is_drawn_was_seen_and_is_longer_than_what_ran(spans, ran, seed):
    curve = Curve.of(spans)
    drawn = curve.draw(ran, random.Random(seed).random())
    assert drawn is None or (drawn > ran and Span(drawn, True) in spans)
    assert list(curve.left) == sorted(curve.left, reverse=True)
    assert all(0 <= left <= 1 for left in curve.left)
