"""What the numbers of a Queue mean."""

import pytest

from kai.model.rules import queue_amounts


@pytest.mark.parametrize(
    ("resource", "said", "counts", "shown"),
    [
        ("gpu", 0.0, 0.0, 0.0),
        ("gpu", 2.5, 2.5, 2.5),
        ("gpu", -1.0, -1.0, -1.0),
        ("gpu", -7.0, -1.0, -1.0),
        ("cpu", 1500.0, 1500.0, 1.5),
        ("cpu", -1.0, -1.0, -1.0),
        ("cpu", -3000.0, -1.0, -1.0),
        ("memory", 1.0, 1e6, 1e6),
        ("memory", 0.5, 5e5, 5e5),
        ("memory", -1.0, -1.0, -1.0),
        ("memory", -0.1, -1.0, -1.0),
    ],
)
def test_a_bound_counts_in_the_units_of_sums_and_is_shown_in_those_of_people(resource, said, counts, shown):
    assert queue_amounts.bound(resource, said) == counts
    assert queue_amounts.shown(resource, said) == pytest.approx(shown)


@pytest.mark.parametrize(
    ("resource", "amount", "written"),
    [("gpu", 2.5, 2.5), ("cpu", 1.5, 1500.0), ("memory", 2e9, 2000.0), ("memory", 0.0, 0.0)],
)
def test_what_people_say_is_written_in_the_units_of_queues(resource, amount, written):
    assert queue_amounts.written(resource, amount) == pytest.approx(written)
    assert queue_amounts.shown(resource, written) == pytest.approx(amount)


@pytest.mark.parametrize(("said", "counts"), [(None, 100), (0, 0), (7, 7), (100, 100)])
def test_a_queue_that_names_no_priority_has_the_usual_one(said, counts):
    assert queue_amounts.priority(said) == counts


@pytest.mark.parametrize(
    ("held", "quota", "borrowed"),
    [(3, 2, 1), (2, 2, 0), (1, 2, 0), (3, 0, 3), (3, queue_amounts.UNLIMITED, 0)],
)
def test_what_is_held_beyond_the_quota_is_borrowed(held, quota, borrowed):
    assert queue_amounts.borrowed(held, quota) == borrowed
