"""How many writes are under way at once follows what the server bears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.kube.flight_limit import LEAST, MOST, START, FlightLimit


def answer(limit, seconds, *, count=1000, wanted=True, kind="patch pods"):
    """So many answers, each after so many seconds; or after what a function makes of the limit."""
    for _ in range(count):
        took = seconds(limit.current) if callable(seconds) else seconds
        limit.answered(kind, took, wanted=wanted)


def test_it_grows_while_somebody_waits_and_only_then():
    limit = FlightLimit()
    answer(limit, 0.01, wanted=False)
    assert limit.current == START
    answer(limit, 0.01)
    assert limit.current == MOST


def test_push_back_halves_it_once_for_what_was_under_way_together():
    limit = FlightLimit()
    for _ in range(20):
        limit.pushed_back(began=1.0, now=2.0)
    assert limit.current == START // 2
    limit.pushed_back(began=3.0, now=4.0)
    assert limit.current == START // 4


def test_it_comes_back_after_push_back():
    limit = FlightLimit()
    for moment in range(10):
        limit.pushed_back(began=moment, now=moment + 0.5)
    assert limit.current == LEAST
    answer(limit, 0.01)
    assert limit.current >= START


def test_a_server_that_is_slow_because_of_us_gets_less():
    """It does 16 writes a second, however many are under way."""
    limit = FlightLimit()
    answer(limit, 0.01, count=1)
    answer(limit, lambda at_once: at_once / 16)
    assert LEAST <= limit.current <= 24


@pytest.mark.parametrize("before", [0.01, 3.0], ids=["suddenly", "always"])
def test_a_server_that_is_slow_whatever_we_do_does_not_get_less(before):
    limit = FlightLimit()
    answer(limit, before, count=START)
    answer(limit, 3.0)
    assert limit.current >= START


def test_answers_that_kubernetes_calls_quick_are_not_slow():
    limit = FlightLimit()
    answer(limit, 0.002, count=1, wanted=False)
    answer(limit, 0.9, wanted=False)
    assert limit.current == START


def test_kinds_of_writes_are_compared_with_their_like():
    """A creation that webhooks are asked about takes longer than a status, and always did."""
    limit = FlightLimit()
    answer(limit, 0.01, count=5, wanted=False, kind="patch pods/status")
    answer(limit, 2.0, count=1000, wanted=False, kind="create pods")
    assert limit.current == START


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("answer"), st.floats(0, 20), st.booleans(), st.sampled_from("ab")),
            st.tuples(st.just("push back"), st.floats(0, 20)),
        ),
        max_size=300,
    )
)
def test_it_stays_within_its_bounds(happenings):
    limit, now = FlightLimit(), 0.0
    for what, seconds, *rest in happenings:
        now += seconds
        if what == "answer":
            limit.answered(rest[1], seconds, wanted=rest[0])
        else:
            limit.pushed_back(began=now - seconds, now=now)
        assert LEAST <= limit.current <= MOST
