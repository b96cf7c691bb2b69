"""Which pods are left alone after the API server did not let them go."""

import pytest

from kai.model.ids import PodUid
from kai.snapshot.eviction_refusals import FIRST_SECONDS, LONGEST_SECONDS, EvictionRefusals
from kai.snapshot.reports import EvictionFailed
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_node, a_running, a_state, task_of

POD, OTHER = PodUid("pod"), PodUid("other")


def left_alone(refusals, now=NOW):
    return {pod: refusal.until for pod, refusal in refusals.standing(now).items()}


def test_each_time_it_is_left_alone_for_longer_and_others_are_not():
    refusals, now, pauses = EvictionRefusals(), NOW, []
    for _ in range(8):
        refusals.refused(POD, why="a budget", now=now)
        until = left_alone(refusals, now)[POD]
        pauses.append(until - now)
        now = until
        assert left_alone(refusals, now) == {}
    assert pauses == [5, 10, 20, 40, 80, 160, LONGEST_SECONDS, LONGEST_SECONDS]
    refusals.refused(OTHER, why="a budget", now=now)
    assert left_alone(refusals, now) == {OTHER: now + FIRST_SECONDS}


def test_whoever_was_not_asked_to_go_for_long_is_forgotten():
    refusals = EvictionRefusals()
    refusals.refused(POD, why="a budget", now=NOW)
    assert left_alone(refusals, NOW + FIRST_SECONDS + LONGEST_SECONDS) == {}
    assert refusals
    assert left_alone(refusals, NOW + FIRST_SECONDS + LONGEST_SECONDS + 1) == {}
    assert not refusals


def test_after_the_clock_went_back_it_is_left_alone_for_no_longer_than_else():
    refusals = EvictionRefusals()
    refusals.refused(POD, why="a budget", now=NOW + 86_400)
    assert left_alone(refusals) == {POD: NOW + LONGEST_SECONDS}
    assert left_alone(refusals, NOW + LONGEST_SECONDS) == {}


def test_what_was_told_is_told_again():
    refusals, copied = EvictionRefusals(), EvictionRefusals()
    refusals.refused(POD, why="a budget", now=NOW)
    copied.refused(OTHER, why="another", now=NOW)
    copied.tell(refusals.told())
    assert copied.standing(NOW) == refusals.standing(NOW)


@pytest.mark.parametrize("there", [True, False], ids=["the pod is there", "it went meanwhile"])
def test_a_failed_eviction_is_known_as_long_as_the_pod_is_there(there):
    state = a_state(a_node("n0"), a_running("victim"))
    uid = task_of(state, "victim-0").uid
    if not there:
        state.remove(Kind.POD, "default/victim-0")
    EvictionFailed(uid, "a budget", NOW).enter(state)
    assert list(state.eviction_refusals.standing(NOW)) == [uid] * there
    if there:
        state.remove(Kind.POD, "default/victim-0")
    assert not state.eviction_refusals
