import numpy as np
import pytest

from kai.engine.fairness import FairOrder, QueueColumns, QueueShares, allocatable_share

MANY = 1000.0


def order_of(*queues, priority=None, total=10.0):
    """Queues as (deserved, fair, allocated), the same in all three resources, the oldest first."""
    columns = QueueColumns.zeros(len(queues))
    for row, (deserved, fair, allocated) in enumerate(queues):
        columns.deserved[row] = deserved
        columns.fair_share[row] = fair
        columns.allocated[row] = allocated
    priorities = priority or [100] * len(queues)
    return FairOrder(columns, shares=QueueShares.of(columns), priority=priorities, total=np.full(3, total))


def job(amount):
    return (amount, amount, amount)


def test_a_queue_over_its_fair_share_comes_last_whatever_its_priority():
    order = order_of((4, 4, 5), (4, 4, 3), priority=[200, 1])
    assert order.key(1, job=job(5)) < order.key(0, job=job(5))


def test_over_means_in_all_three_resources():
    columns = QueueColumns.zeros(2)
    columns.deserved[:] = MANY
    columns.fair_share[:] = 4
    columns.allocated[0] = (9, 9, 4)
    shares = QueueShares.of(columns)
    order = FairOrder(columns, shares=shares, priority=[2, 1], total=np.full(3, 10.0))
    assert order.key(0) < order.key(1)


def test_a_queue_that_deserves_what_its_job_adds_comes_before_priority():
    order = order_of((4, 9, 3), (4, 9, 3), priority=[1, 9])
    assert order.key(0, job=job(1)) < order.key(1, job=job(2))


def test_priority_comes_before_shares():
    order = order_of((9, 9, 5), (9, 9, 0), priority=[2, 1])
    assert order.key(0) < order.key(1)


def test_a_queue_that_uses_what_it_has_no_share_in_comes_last():
    order = order_of((0, 0, 0), (-1, 5, 5))
    assert order.key(1, job=job(1)) < order.key(0, job=job(1))


def test_the_smaller_dominant_share_with_the_job_comes_first():
    order = order_of((0, 8, 4), (0, 4, 3))
    assert order.key(0, job=job(1)) < order.key(1, job=job(1))


def test_victims_are_taken_off_the_share():
    order = order_of((0, 8, 6), (0, 8, 5))
    assert order.key(1) < order.key(0)
    assert order.key(0, victims=job(2)) < order.key(1)


def test_an_unlimited_share_is_measured_by_the_cluster():
    large = order_of((-1, 9, 5), (8, 8, 5), total=20.0)
    assert large.key(0) < large.key(1)
    small = order_of((-1, 9, 5), (8, 8, 5), total=6.0)
    assert small.key(1) < small.key(0)


def test_the_weaker_queue_comes_first_and_no_other_difference_counts():
    order = order_of((0, 8, 0), (0, 4, 0), (0, 4, 0))
    assert order.key(1) == order.key(2) < order.key(0)


@pytest.mark.parametrize(
    ("deserved", "limit", "fair", "expected"),
    [(-1, -1, 3, -1), (-1, 5, 3, 5), (2, -1, 3, 3), (4, -1, 3, 4), (4, 2, 3, 2), (0, 9, 3, 3)],
)
def test_the_allocatable_share(deserved, limit, fair, expected):
    columns = (np.array([[float(value)] * 3]) for value in (deserved, limit, fair))
    share = allocatable_share(next(columns), limit=next(columns), fair_share=next(columns))
    assert share.tolist() == [[expected] * 3]
