"""A pod whose bind goes on failing is decided about anew, the later the more often, and for ever."""

from kai_scheduler.retries import Retries


def fail(retries, times, *, uid="a", counts=True, waiting=("a", "b")):
    return [retries.failed(uid, counts=counts, waiting=waiting) for _ in range(times)]


def test_each_failure_doubles_the_pause_up_to_sixteen_periods():
    assert fail(Retries(period=2.0), 7) == [2.0, 4.0, 8.0, 16.0, 32.0, 32.0, 32.0]


def test_one_that_fails_for_a_week_is_tried_as_often_as_before():
    assert set(fail(Retries(period=1.0), 40_000)[5:]) == {16.0}


def test_what_is_no_failure_of_the_pod_makes_no_pause_longer():
    retries = Retries(period=1.0)
    assert fail(retries, 3, counts=False) == [0.5, 0.5, 0.5]
    assert fail(retries, 1) == [1.0]


def test_success_and_absence_are_a_new_beginning():
    retries = Retries(period=1.0)
    fail(retries, 3)
    retries.bound("a")
    assert fail(retries, 1) == [1.0]
    fail(retries, 3, uid="b")
    fail(retries, 1, uid="gone")
    assert fail(retries, 1, uid="b", waiting=("b",)) == [8.0]
    fail(retries, 1, uid="gone", waiting=())
    assert fail(retries, 1, uid="b") == [1.0]
