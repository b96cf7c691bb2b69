"""The list of scheduling conditions, as clients rely on it."""

from datetime import UTC, datetime

import msgspec
import pytest

from kai.model import condition_texts
from kai.model.decisions import Explanation, Outcome
from kai_podgroup_controller import conditions
from kai_podgroup_controller.facts import watched_group

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


def a_condition(pool="default", *, message="no room", transition="1"):
    return {
        "type": "UnschedulableOnNodePool",
        "nodePool": pool,
        "reason": "Unschedulable",
        "message": message,
        "status": "True",
        "transitionID": transition,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    }


def facts(build, *conditions, spec=None, pool=""):
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    group = build.group(status={"schedulingConditions": list(conditions)}, spec=spec, labels=labels)
    return watched_group(group, node_pool_label_key="kai.scheduler/node-pool")


def updated(group, outcome, *, verdict=""):
    message = conditions.message_of(group, outcome.message) + verdict
    return conditions.updated(group, outcome, message=message, now=NOW)


def shown(found):
    return found and [(c.node_pool, c.message, c.transition_id) for c in found]


@pytest.mark.parametrize(
    ("before", "pool", "after"),
    [
        pytest.param([], "", [("default", "no room", "1")], id="first"),
        pytest.param([a_condition()], "", None, id="same as the last"),
        pytest.param([a_condition(message="old")], "", [("default", "no room", "2")], id="message changed"),
        pytest.param(
            [a_condition("a", transition="7")],
            "b",
            [("a", "no room", "7"), ("b", "no room", "8")],
            id="another node pool comes last",
        ),
        pytest.param(
            [a_condition("a", transition="1"), a_condition("b", transition="2")],
            "a",
            [("b", "no room", "2"), ("a", "no room", "3")],
            id="same but not last moves to the end",
        ),
        pytest.param(
            [a_condition(message="x", transition="abc")], "", [("default", "no room", "1")], id="bad id"
        ),
        pytest.param(
            [a_condition(message="x", transition="-4")], "", [("default", "no room", "1")], id="negative"
        ),
        pytest.param(
            [a_condition(message="x", transition="")], "", [("default", "no room", "1")], id="no id"
        ),
        pytest.param(
            [a_condition(message="x", transition="²")], "", [("default", "no room", "1")], id="odd digits"
        ),
        pytest.param(
            [a_condition(message="x", transition="9" * 5000)], "", [("default", "no room", "1")], id="long id"
        ),
    ],
)
def test_the_newest_is_last_and_the_only_one_of_its_pool(build, before, pool, after):
    assert shown(updated(facts(build, *before, pool=pool), build.outcome())) == after


def test_another_verdict_behind_the_same_words_is_no_other_state(build):
    wait, change = "; verdict WAIT (OthersFirst): x", "; verdict CHANGE (Tainted): y"
    first = a_condition(message=f"no room{wait}", transition="4")
    group = facts(build, a_condition("a", transition="3"), first)
    assert updated(group, build.outcome(), verdict=wait) is None
    *_, last = found = updated(group, build.outcome(), verdict=change)
    assert shown(found) == [("a", "no room", "3"), ("default", f"no room{change}", "4")]
    assert last.last_transition_time == first["lastTransitionTime"]
    assert shown(updated(group, build.outcome(message="other"), verdict=change))[-1][2] == "5"


def test_what_the_next_leader_tells_of_a_single_attempt_leaves_its_condition_as_it_is(build):
    said = a_condition(message="Node-Pool 'default': no room; verdict CHANGE (GivenUp): x", transition="4")
    group = facts(build, said, spec={"schedulingBackoff": 1})
    told = condition_texts.own_text(said["message"], pool="default")
    assert told == "no room"
    found = updated(group, build.outcome(message=told), verdict="; verdict CHANGE (GivenUp): x")
    assert found is None


def test_nothing_is_written_while_pods_are_actively_allocated(build):
    assert updated(facts(build), build.outcome(write_condition=False)) is None


@pytest.mark.parametrize("kind", [Outcome.SETTLED, Outcome.PLACED, Outcome.PIPELINED, Outcome.NOT_READY])
def test_other_outcomes_leave_the_conditions_alone(build, kind):
    assert updated(facts(build, a_condition()), build.outcome(kind)) is None


def test_all_are_cleared_once_nothing_waits(build):
    outcome = build.outcome(Outcome.SETTLED, clear_conditions=True)
    assert updated(facts(build, a_condition("a"), a_condition("b")), outcome) == ()
    assert updated(facts(build), outcome) is None


def test_reasons_carry_the_numbers_as_quantities(build):
    details = {
        "queueDetails": {
            "name": "q",
            "queueDeservedResources": {"cpu": -1, "memory": 2.0**31, "gpu": 1.5},
            "queueAllocatedResources": {"cpu": 1500.0, "memory": 0, "gpu": 0.7},
        }
    }
    outcome = build.outcome(
        explanations=(
            Explanation(reason="OverLimit", message="too much", details=details),
            Explanation(reason="PodSchedulingErrors", message="b"),
        )
    )
    (condition,) = updated(facts(build), outcome)
    assert condition.last_transition_time == "2026-11-21T10:00:00Z"
    assert condition.reasons == [
        {
            "reason": "OverLimit",
            "message": "too much",
            "details": {
                "queueDetails": {
                    "name": "q",
                    "queueDeservedResources": {"cpu": "-1", "memory": "2Gi", "nvidia.com/gpu": "1500m"},
                    "queueAllocatedResources": {"cpu": "1500m", "memory": "0", "nvidia.com/gpu": "700m"},
                }
            },
        },
        {"reason": "PodSchedulingErrors", "message": "b"},
    ]


def test_a_group_with_one_attempt_names_the_pool_in_its_message(build):
    group = facts(build, spec={"schedulingBackoff": 1}, pool="blue")
    (condition,) = updated(group, build.outcome())
    assert condition.message == "Node-Pool 'blue': no room"


def test_a_message_of_any_length_is_told_as_far_as_conditions_go_and_once(build):
    """The API server would refuse it for ever, and with it all else of the status."""
    text = "config map ä, " * condition_texts.MOST_BYTES
    outcome = build.outcome(message=text, explanations=(Explanation(reason="Errors", message=text),) * 50)
    (said,) = updated(facts(build), outcome)
    told = [said.message, *(each["message"] for each in said.reasons)]
    assert all(each.startswith("config map ä, config") and each.endswith("…") for each in told)
    assert len(told) == 2
    assert all(len(each.encode()) <= condition_texts.MOST_BYTES for each in told)
    assert updated(facts(build, msgspec.to_builtins(said)), outcome) is None


def test_of_many_reasons_as_many_are_told_as_one_message_has_room_for(build):
    some = [Explanation(reason=f"r{number}", message="x" * 1000) for number in range(100)]
    (said,) = updated(facts(build), build.outcome(explanations=tuple(some)))
    assert [each["reason"] for each in said.reasons] == [f"r{number}" for number in range(32)]
