"""What plugins say to one search for victims, put together."""

from __future__ import annotations

from typing import Any

import pytest

from kai.engine.framework.victims import ANYBODY, VictimRules, all_of, both
from kai.engine.queueing.batches import Batch, by_job
from kai.engine.reasons import Unschedulable
from kai.model.decisions import Reason


def even(number: int) -> bool:
    return number % 2 == 0


def small(number: int) -> bool:
    return number < 10


def test_where_nobody_says_anything_nobody_is_asked() -> None:
    assert all_of([]) is ANYBODY
    found = all_of([VictimRules(), VictimRules()])
    assert (found.accepts, found.allows, found.why) == (None, None, None)


def test_what_one_says_is_asked_without_a_detour() -> None:
    assert both(None, even) is even
    assert both(even, None) is even
    assert both(None, None) is None
    rules = VictimRules(accepts=even)  # type: ignore[arg-type]
    assert all_of([rules]) is rules


@pytest.mark.parametrize(("number", "allowed"), [(2, True), (3, False), (12, False)])
def test_conditions_must_all_hold(number: int, allowed: bool) -> None:
    condition = both(both(even, None), small)
    assert condition is not None
    assert condition(number) is allowed


def test_of_victims_that_one_leaves_another_may_leave_fewer() -> None:
    rules = all_of([VictimRules(most_of=lambda victims: victims[:3]), VictimRules(most_of=lambda v: v[1:])])
    assert rules.most_of is not None
    assert rules.most_of([1, 2, 3, 4]) == [2, 3]  # type: ignore[list-item]


def test_the_first_reason_counts() -> None:
    def says(text: str) -> Any:
        return lambda job: Unschedulable(Reason.MIN_RUNTIME, text) if text else None

    rules = all_of([VictimRules(why=says(text)) for text in ("", "first", "second")])
    assert rules.why is not None
    found = rules.why(None)  # type: ignore[arg-type]
    assert found is not None
    assert found.message == "first"


def test_victims_are_sorted_by_their_jobs_and_keep_their_order() -> None:
    class _Job:
        def __init__(self, key: str) -> None:
            self.key = key

    a, b = _Job("a"), _Job("b")
    batches = [Batch(number, job, ()) for number, job in enumerate((b, a, b))]  # type: ignore[arg-type]
    assert {key: [each.number for each in found] for key, found in by_job(batches).items()} == {
        "b": [0, 2],
        "a": [1],
    }
