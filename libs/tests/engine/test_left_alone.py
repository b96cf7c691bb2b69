"""Whose pod was to go and was not let go is left alone for a while, and others make room."""

from typing import Any

import pytest

from kai.model import names
from kai.model.decisions import CycleResult
from kai.snapshot.eviction_refusals import FIRST_SECONDS
from kai.snapshot.reports import EvictionFailed
from kai.snapshot.state import ClusterState
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    a_job,
    a_node,
    a_queue,
    a_running,
    a_state,
    config,
    cycle,
    decided,
    outcomes,
    taker,
    task_of,
)

WHY = "TooManyRequests: the budget allows none"
AGAIN = NOW + FIRST_SECONDS


def refused(state: ClusterState, *pods: str, now: float = NOW) -> ClusterState:
    """The same state, once these were not let go."""
    for pod in pods:
        EvictionFailed(task_of(state, pod).uid, WHY, now).enter(state)
    return state


def told(result: CycleResult, job: str = "taker") -> dict[str, str]:
    return {each.reason: each.message for each in outcomes(result)[job].explanations}


def full_node(**job: Any) -> ClusterState:
    older, younger = (a_running(name, created=n, **job) for n, name in enumerate(("older", "younger")))
    return a_state(a_node("n0", gpus=2), older, younger, taker())


def test_somebody_else_makes_room_for_a_job_of_higher_priority() -> None:
    assert decided(full_node()).evicts == {"younger-0"}
    assert decided(refused(full_node(), "younger-0")).evicts == {"older-0"}


def test_and_for_a_job_of_a_queue_that_is_owed_it() -> None:
    def world() -> ClusterState:
        theirs = [a_running(name, queue="rich", created=n) for n, name in enumerate(("older", "younger"))]
        queues = [a_queue("rich", gpu=1, weight=0), a_queue("poor", gpu=1, weight=0)]
        return a_state(*queues, a_node("n0", gpus=2), theirs, a_job("taker", queue="poor", gpus=1))

    assert decided(world()).evicts == {"younger-0"}
    assert decided(refused(world(), "younger-0")).evicts == {"older-0"}


def test_nor_is_it_moved_for_others() -> None:
    def world() -> ClusterState:
        return a_state(
            a_node("n0", gpus=2),
            a_node("n1", gpus=2),
            a_running("here", on="n0"),
            a_running("there", on="n1"),
            a_job("taker", gpus=2),
        )

    [moved] = decided(world(), config("allocate", "consolidation")).evicts
    other = {"here-0": "there-0", "there-0": "here-0"}[moved]
    assert decided(refused(world(), moved), config("allocate", "consolidation")).evicts == {other}


def test_if_there_is_nobody_else_who_waits_is_told_and_it_is_tried_again_then() -> None:
    state = refused(full_node(), "younger-0", "older-0")
    result = cycle(state)
    assert not result.evictions
    assert told(result)["EvictionRefused"] == (
        "left alone for a while, since their eviction was refused: "
        f"default/older-0 ({WHY}), default/younger-0 ({WHY})"
    )
    assert result.alarm == AGAIN
    assert decided(state, now=AGAIN).evicts == {"younger-0"}


def test_a_job_is_left_alone_as_long_as_the_last_of_its_pods() -> None:
    state = a_state(a_node("n0", gpus=2), a_running("gang", on=["n0"] * 2), taker())
    refused(state, "gang-0", now=NOW - 1)
    refused(state, "gang-1")
    refused(state, "gang-1")
    result = cycle(state, now=AGAIN)
    assert not result.evictions
    assert "default/gang-1 (" in told(result)["EvictionRefused"]


def test_nobody_is_told_of_it_whom_it_does_not_concern() -> None:
    state = refused(a_state(a_node("n0", gpus=2), a_running("other"), taker(gpus=9)), "other-0")
    assert "EvictionRefused" not in told(cycle(state))


@pytest.mark.parametrize("now", [NOW, AGAIN], ids=["at once", "after a while"])
def test_of_a_gang_that_is_given_up_only_who_was_not_let_go_stays_for_a_while(now: float) -> None:
    gang = a_job("gang", on=["n0"] * 2, min_member=3, gpus=1)
    gang[0].metadata.annotations[names.STALE_TIMESTAMP] = rfc3339(NOW - 600)
    state = refused(a_state(a_node("n0", gpus=2), gang), "gang-0")
    result = cycle(state, config("stalegangeviction"), now=now)
    evicted = {each.pod.name for each in result.evictions}
    if now == AGAIN:
        assert evicted == {"gang-0", "gang-1"}
    else:
        assert (evicted, result.alarm) == ({"gang-1"}, AGAIN)
