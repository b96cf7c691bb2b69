import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kai.engine.fairness import QueueColumns, QueueForest, divide_forest
from kai.engine.fairness.conformance import run_call

FAIRSHARE = Path(__file__).resolve().parents[5] / "shared" / "scenarios" / "fairshare.json"
GPU = 2


def calls():
    if not FAIRSHARE.exists():
        return [
            pytest.param(None, id="shared scenarios", marks=pytest.mark.skip(reason="../shared is not here"))
        ]
    entries = json.loads(FAIRSHARE.read_text())
    return [pytest.param(call, id=entry["id"]) for entry in entries for call in entry["calls"]]


@pytest.mark.parametrize("call", calls())
def test_a_recorded_division_comes_out_as_recorded(call):
    assert run_call(call) == []


def test_a_wrong_expectation_is_reported_with_queue_and_amounts():
    share = {
        "deserved": 1,
        "max_allowed": -1,
        "over_quota_weight": 0,
        "request": 1,
        "usage": 0,
        "fair_share": 0,
    }
    share |= {"allocated": 0, "allocated_non_preemptible": 0}
    queue = {
        "uid": "a",
        "parent": "",
        "priority": 0,
        "creation_rank": 0,
        "gpu": share,
        "cpu": share,
        "memory": share,
    }
    call = {
        "function": "setResourceShare",
        "k_value": 0,
        "resource": "gpu",
        "total": 3,
        "queues": {"a": queue},
        "expected": {"fair_share": {"a": {"gpu": 2}}, "remaining": 2},
    }
    assert run_call(call) == ["queue a: fair share of gpu is 1, expected 2"]
    assert "is not known" in run_call(call | {"function": "guess"})[0]


def queue(deserved=0.0, weight=1.0, request=0.0, **others):
    queue = {"deserved": deserved, "weight": weight, "request": request}
    return queue | {"limit": -1.0, "usage": 0.0, "priority": 100} | others


def shares_of(queues, total, *, k=0.0):
    """Fair shares of GPUs of top queues, the oldest first."""
    columns = QueueColumns.zeros(len(queues))
    for row, each in enumerate(queues):
        for name in ("deserved", "weight", "request", "limit", "usage"):
            getattr(columns, name)[row, GPU] = each[name]
    forest = QueueForest(
        [-1] * len(queues), priority=[each["priority"] for each in queues], rank=list(range(len(queues)))
    )
    divide_forest(forest, columns, np.array([0.0, 0.0, total]), k=k)
    return columns.fair_share[:, GPU].tolist()


@pytest.mark.parametrize(
    ("total", "k", "queues", "expected"),
    [
        (8, 0, [queue(2, 1, 6), queue(2, 3, 6)], [3, 5]),
        (15, 0, [queue(2, 2, 6), queue(2, 2, 6)], [6, 6]),
        (12, 0, [queue(2, 2, 6, limit=5), queue(2, 2, 6)], [5, 6]),
        (11, 0, [queue(2, 1, 10), queue(2, 4, 10)], [3, 8]),
        (11, 0, [queue(2, 2, 6), queue(2, 2, 6)], [6, 5]),
        (4, 0, [queue(2, 2, 6, priority=1), queue(2, 2, 6, priority=2)], [2, 2]),
        (6, 0, [queue(2, 100, 6, priority=1), queue(2, 1, 6, priority=2)], [2, 4]),
        (
            5,
            0,
            [queue(2, 2, 5, priority=2), queue(2, 2, 5, priority=2), queue(1, 2, 0, priority=1)],
            [3, 2, 0],
        ),
        (1, 0, [queue(3, 0, 2)], [2]),
        (2, 0, [queue(1.5, 0, 2)], [1.5]),
        (
            10,
            0,
            [queue(3, 2, 10, priority=2), queue(2, 1, 10, priority=2), queue(2, 1, 10, priority=1)],
            [5, 3, 2],
        ),
        (10, 0, [queue(3, 1, 9), queue(1, 2, 9), queue(0, 1, 1)], [4, 5, 1]),
        (16, 0, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99, usage=0.1)], [8, 8]),
        (16, 0.5, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99, usage=0.1)], [7, 9]),
        (16, 1, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99, usage=0.1)], [6, 10]),
        (16, 2, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99, usage=0.1)], [4, 12]),
        (10, 1, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99)], [3, 7]),
        (10, 5, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99)], [1, 9]),
        (10, 20, [queue(0, 1, 99, usage=0.5), queue(0, 1, 99)], [0, 10]),
        (10, 5, [queue(0, 1, 99, usage=1), queue(0, 1, 99, usage=1)], [0, 0]),
        (
            3,
            0,
            [queue(request=5, priority=2), queue(request=5, priority=2), queue(request=5, priority=1)],
            [1, 1, 1],
        ),
        (4, -3, [queue(0, 1, 9, usage=1), queue(0, 1, 9)], [2, 2]),
        (10, 0, [queue(-1, 0, 7), queue(-1, 0, 5)], [7, 5]),
    ],
)
def test_worked_examples(total, k, queues, expected):
    assert shares_of(queues, total, k=k) == pytest.approx(expected, abs=1e-12)


def test_a_remainder_never_lifts_a_queue_above_what_it_can_use():
    assert shares_of([queue(request=0.7), queue(request=0.7)], 1) == pytest.approx([0.7, 0.3])
    assert shares_of([queue(request=0.7, limit=0.6), queue(request=0.7)], 1) == pytest.approx([0.6, 0.4])


def test_children_divide_what_their_parent_got():
    forest = QueueForest([-1, 0, 0, -1, 3], priority=[100] * 5, rank=range(5))
    columns = QueueColumns.zeros(5)
    columns.weight[:, GPU] = 1
    columns.request[:, GPU] = [20, 10, 10, 4, 4]
    columns.deserved[:, GPU] = [6, 1, -1, 0, 0]
    divide_forest(forest, columns, np.array([0.0, 0.0, 12.0]), k=1.0)
    assert columns.fair_share[:, GPU].tolist() == [9, 1, 9, 3, 3]


amounts = st.sampled_from([0, 0, 0.5, 1, 1.3, 2, 3, 7, 20])
queues_strategy = st.lists(
    st.builds(
        queue,
        deserved=st.one_of(st.just(-1.0), amounts),
        weight=st.sampled_from([0, 1, 1, 2, 5]),
        request=amounts,
        limit=st.one_of(st.just(-1.0), amounts),
        usage=st.sampled_from([0, 0, 0.1, 0.5, 1]),
        priority=st.sampled_from([1, 2, 3]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=300)
@given(queues_strategy, st.sampled_from([0, 0.5, 1, 3, 10, 17.25, 100]), st.sampled_from([0, 0.5, 1, 4]))
def test_no_queue_gets_more_than_it_can_use_nor_less_than_it_deserves(queues, total, k):
    shares = shares_of(queues, total, k=k)
    promised = 0.0
    for each, share in zip(queues, shares, strict=True):
        usable = each["request"] if each["limit"] < 0 else min(each["limit"], each["request"])
        deserved = min(usable, total if each["deserved"] < 0 else each["deserved"])
        promised += deserved
        assert deserved - 1e-9 <= share <= usable + 1e-9
    assert sum(shares) <= max(total, promised) + 1e-9


@settings(max_examples=200)
@given(queues_strategy, st.sampled_from([1, 3, 10, 17.25]), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(queues, total, random):
    shares = shares_of(queues, total)
    order = list(range(len(queues)))
    random.shuffle(order)
    columns = QueueColumns.zeros(len(queues))
    for row, source in enumerate(order):
        for name in ("deserved", "weight", "request", "limit", "usage"):
            getattr(columns, name)[row, GPU] = queues[source][name]
    forest = QueueForest(
        [-1] * len(queues), priority=[queues[source]["priority"] for source in order], rank=order
    )
    divide_forest(forest, columns, np.array([0.0, 0.0, total]), k=0.0)
    assert [columns.fair_share[order.index(source), GPU] for source in range(len(queues))] == shares


#: Whose remainders add up to what no float is: 0.7 with others before them was 0.7000000000000002.
ROUNDED = [
    *(
        {"deserved": -1.0, "weight": 0, "request": 0, "limit": -1.0, "usage": 0, "priority": 1}
        for _ in range(4)
    ),
    {"deserved": -1.0, "weight": 0, "request": 1, "limit": -1.0, "usage": 0, "priority": 1},
    {"deserved": 0.5, "weight": 5, "request": 1.3, "limit": -1.0, "usage": 0, "priority": 2},
    {"deserved": 0, "weight": 5, "request": 1, "limit": -1.0, "usage": 0, "priority": 2},
]


@settings(max_examples=150)
@given(queues_strategy, st.sampled_from([1, 3, 10, 17.25]), st.sampled_from([0, 1, 4]))
@example(ROUNDED, 3, 0)
def test_many_divisions_at_once_equal_each_alone(queues, total, k):
    """Three parents of one queue set each, as a level, give what the same queues give at the top."""
    alone = shares_of(queues, total, k=k)
    size = len(queues)
    parents = [-1] * 3 + [row // size for row in range(3 * size)]
    priorities = [1] * 3 + [each["priority"] for each in queues] * 3
    columns = QueueColumns.zeros(3 + 3 * size)
    columns.deserved[:3] = total
    columns.request[:3] = total
    for row in range(3 * size):
        for name in ("deserved", "weight", "request", "limit", "usage"):
            getattr(columns, name)[3 + row] = queues[row % size][name]
    forest = QueueForest(parents, priority=priorities, rank=range(3 + 3 * size))
    divide_forest(forest, columns, np.full(3, 3 * total), k=k)
    for resource in range(3):
        for group in range(3):
            first = 3 + group * size
            assert columns.fair_share[first : first + size, resource].tolist() == alone
