"""What pods are told that no node can take."""

from datetime import UTC, datetime

import pytest

from kai.model.condition_texts import MOST_BYTES
from kai_podgroup_controller.pods import condition_patch, unschedulable_pods

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


def told(build, outcome, *, shown, attempts=1):
    """The texts for a pod that shows one already, or none, of a group that wants so many attempts."""
    cluster = build.cluster()
    cluster.take_group(build.group(spec={"schedulingBackoff": attempts}))
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": shown}
    cluster.take_pod(build.pod(conditions=[said] if shown else []))
    group = cluster.groups["team/train"]
    return [text for _, text in unschedulable_pods(group, outcome, cluster)]


def test_the_next_leader_knows_no_pod_of_a_single_attempt_and_leaves_its_words_as_they_are(build):
    own = "Node-Pool 'default': no node has 5 GPUs"
    first = build.outcome(pod_messages={"team/worker": "no node has 5 GPUs"})
    assert told(build, first, shown="") == [own]
    assert told(build, build.outcome(), shown=own) == []


@pytest.mark.parametrize("shown", ["", "Node-Pool 'another': no room there"])
def test_who_says_nothing_of_this_attempt_is_told_what_its_group_is(build, shown):
    assert told(build, build.outcome(), shown=shown) == ["Node-Pool 'default': no room"]


def test_a_group_that_is_tried_again_says_what_was_found_last(build):
    assert told(build, build.outcome(), shown="no node has 5 GPUs", attempts=-1) == ["no room"]


def test_a_message_of_any_length_is_told_as_far_as_conditions_go_and_once(build):
    text = "config map ä, " * MOST_BYTES
    patch = condition_patch(build.facts(), text, now=NOW)
    (said,) = patch["status"]["conditions"]
    assert said["message"].startswith("config map ä, config")
    assert len(said["message"].encode()) <= MOST_BYTES
    assert condition_patch(build.facts(conditions=[said]), text, now=NOW) is None
