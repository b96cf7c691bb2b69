"""Which scaling pods are made and removed: a table of cases."""

from decimal import Decimal

import pytest

from kai_node_scale_adjuster.adjustment import Rules, adjust

RULES = Rules()


def decide(build, waiting, scaling=(), **options):
    return adjust(waiting, list(scaling), rules=options.pop("rules", RULES), now=build.now, **options)


def created(adjustment):
    return [creation.waiting.pod.metadata.name for creation in adjustment.create]


def removed(adjustment):
    return {removal.scaling.metadata.name: removal.reason for removal in adjustment.remove}


# --- how many ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pods", "made"),
    [
        ([], []),
        ([{"fraction": "0.5"}], ["p0"]),
        ([{"fraction": "0.5"}, {"fraction": "0.5"}], ["p0"]),
        ([{"fraction": "0.6"}, {"fraction": "0.6"}], ["p0", "p1"]),
        ([{"fraction": "0.34"}] * 3, ["p0", "p1"]),
        ([{"memory": "4000"}] * 10, ["p0"]),
        ([{"memory": "4000"}] * 11, ["p0", "p1"]),
        ([{"memory": "4000", "devices": 2}], ["p0"]),
        ([{"fraction": "0.1"}, {"fraction": "0.1", "devices": 2}], ["p1"]),
        ([{"fraction": "0.9"}, {"fraction": "0.9"}, {"fraction": "0.1", "devices": 2}], ["p2"]),
        ([{"fraction": "0.9", "devices": 4}, {"fraction": "0.5"}], ["p0", "p1"]),
    ],
    ids=[
        "nobody waits",
        "one",
        "two halves are one device",
        "two that are more than halves are two",
        "three thirds and a bit",
        "memory counts a tenth each",
        "eleven tenths",
        "memory of two devices",
        "two devices together serve one as well",
        "those with most devices come first",
        "four nearly whole, and a half",
    ],
)
def test_parts_are_added_up_to_whole_devices(build, pods, made):
    waiting = [build.waiting(f"p{i}", **asked) for i, asked in enumerate(pods)]
    assert created(decide(build, waiting)) == made


@pytest.mark.parametrize(("ratio", "made"), [("0.1", 1), ("0.5", 5), ("1", 10)])
def test_what_memory_is_taken_for_can_be_chosen(build, ratio, made):
    waiting = [build.waiting(f"p{i}", memory="4000") for i in range(10)]
    rules = Rules(memory_ratio=Decimal(ratio))
    assert len(decide(build, waiting, rules=rules).create) == made


def test_who_has_a_scaling_pod_gets_no_second_one(build):
    pod = build.waiting("p")
    adjustment = decide(build, [pod], [build.scaling(pod)])
    assert (adjustment.create, adjustment.remove) == ((), ())


def test_what_scaling_pods_ask_for_already_counts(build):
    first, second, third = (build.waiting(name, fraction="0.4") for name in "abc")
    assert created(decide(build, [first, second], [build.scaling(first)])) == []
    assert created(decide(build, [first, second, third], [build.scaling(first)])) == ["b"]


def test_more_devices_of_one_node_need_a_scaling_pod_of_their_own(build):
    small, large = build.waiting("small", fraction="0.1"), build.waiting("large", fraction="0.1", devices=2)
    adjustment = decide(build, [small, large], [build.scaling(small)])
    assert created(adjustment) == ["large"]
    assert removed(adjustment) == {"team-small": "the others are enough"}


@pytest.mark.parametrize(
    "place",
    [
        {"nodeSelector": {"pool": "b"}},
        {"tolerations": [{"key": "pool", "operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
    ],
    ids=lambda place: next(iter(place)),
)
def test_parts_are_not_added_up_among_pods_that_other_nodes_suit(build, place):
    waiting = [build.waiting("a", fraction="0.2"), build.waiting("b", fraction="0.2", **place)]
    assert created(decide(build, waiting)) == ["a", "b"]


@pytest.mark.parametrize(
    "theirs",
    [{"fraction": "0.01", "devices": 1000}, {"fraction": "0.01", "requests": {"cpu": "100000"}}],
    ids=["more devices than a node has", "more of the rest"],
)
def test_what_another_namespace_asks_for_serves_nobody_else(build, theirs):
    """Its owner may see to it that it is never to be had."""
    huge = build.waiting("huge", namespace="evil", **theirs)
    pods = [build.waiting(name, fraction="0.5", devices=devices) for name, devices in (("a", 1), ("b", 8))]
    assert created(decide(build, [huge, *pods], [build.scaling(huge)])) == ["b"]
    assert removed(decide(build, [huge, pods[1]], [build.scaling(huge), build.scaling(pods[1])])) == {}


def test_one_that_no_node_can_be_had_for_holds_up_nobody_else(build):
    huge, small = build.waiting("huge", fraction="0.5"), build.waiting("small", fraction="0.5")
    waits = build.scaling(huge, age=RULES.patience - 1)
    early = decide(build, [huge, small], [waits])
    assert created(early) == []
    assert early.again_in == pytest.approx(1)
    late = decide(build, [huge, small], [build.scaling(huge, age=RULES.patience)])
    assert (created(late), removed(late)) == (["small"], {})


def test_nobody_counts_on_a_scaling_pod_that_is_refused_and_it_is_tried_after_the_others(build):
    large, small = build.waiting("large", devices=2), build.waiting("small")
    assert created(decide(build, [large, small])) == ["large"]
    refused = {large.uid}
    assert created(decide(build, [large, small], refused=refused)) == ["small", "large"]
    beside = decide(build, [large, small], [build.scaling(small)], refused=refused)
    assert (created(beside), removed(beside)) == (["large"], {})


def test_those_who_are_refused_take_no_room_in_their_namespace_from_who_is_not(build):
    flood = [build.waiting(f"p{i}", nodeSelector={"n": str(i)}) for i in range(3)]
    later = build.waiting("q", nodeSelector={"n": "q"})
    refused = {each.uid for each in flood}
    found = decide(build, [*flood, later], rules=Rules(most_waiting=2), refused=refused)
    assert created(found) == ["q", "p0"]


def test_a_namespace_has_so_many_waiting_and_no_more_and_takes_none_from_others(build):
    rules = Rules(most_waiting=2)
    flood = [build.waiting(f"p{i}", nodeSelector={"n": str(i)}) for i in range(9)]
    other = build.waiting("q", namespace="other")
    first = decide(build, [*flood, other], rules=rules)
    assert sorted(created(first)) == ["p0", "p1", "q"]
    there = [build.scaling(each.waiting, name=each.name) for each in first.create]
    assert created(decide(build, [*flood, other], there, rules=rules)) == []
    placed = [build.scaling(flood[0], node="n1", phase="Running")]
    placed += [each for each in there if each.stands_for != flood[0].key]
    assert created(decide(build, [*flood, other], placed, rules=rules)) == ["p2"]


# --- who gets one ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        [{"type": "PodScheduled", "status": "True"}],
        [{"type": "Ready", "status": "False", "reason": "Unschedulable"}],
    ],
    ids=["says nothing", "gated", "scheduled", "another condition"],
)
def test_only_who_is_unschedulable_gets_one(build, conditions):
    assert created(decide(build, [build.waiting(conditions=conditions)])) == []


def test_who_says_nothing_any_more_keeps_what_he_has(build):
    pod = build.waiting(conditions=[])
    adjustment = decide(build, [pod], [build.scaling(pod)])
    assert (adjustment.create, adjustment.remove) == ((), ())


# --- who loses his -----------------------------------------------------------------------------
def test_a_scaling_pod_goes_with_its_cause(build):
    pod = build.waiting("p")
    cases = {
        "its pod is gone or needs no node any more": [
            (None, build.scaling(pod)),
            (build.waiting("p", uid="another"), build.scaling(pod)),
            (build.waiting("p", conditions=[{"type": "PodScheduled", "status": "True"}]), build.scaling(pod)),
        ],
        "its pod asks for another number of devices": [
            (build.waiting("p", devices=2), build.scaling(pod)),
        ],
        "it has ended": [
            (pod, build.scaling(pod, phase="Succeeded", node="n1")),
            (pod, build.scaling(pod, phase="Failed", node="n1")),
        ],
    }
    for reason, situations in cases.items():
        for waiting, scaling in situations:
            found = removed(decide(build, [waiting] if waiting else [], [scaling]))
            assert found == {"team-p": reason}


def test_one_that_does_not_end_on_its_node_gives_its_device_back(build):
    pod = build.waiting()
    just_now = decide(build, [pod], [build.scaling(pod, node="n1", phase="Running", since=59)])
    assert (just_now.remove, just_now.again_in) == ((), pytest.approx(1))
    late = decide(build, [pod], [build.scaling(pod, node="n1", phase="Pending", since=60)])
    assert "does not end on its node" in removed(late)["team-p"]


def test_what_is_surplus_goes_while_it_waits_and_stays_once_it_is_placed(build):
    pods = [build.waiting(name, fraction="0.2") for name in "ab"]
    waiting = decide(build, pods, [build.scaling(pod) for pod in pods])
    assert removed(waiting) == {"team-a": "the others are enough"}
    placed = decide(build, pods, [build.scaling(pod, node="n1", phase="Running") for pod in pods])
    assert removed(placed) == {}


def test_devices_that_are_needed_together_are_asked_for_beside_any_number_of_others(build):
    small, large = build.waiting("small", fraction="0.1"), build.waiting("large", fraction="0.1", devices=2)
    there = [build.scaling(small, node="n1", phase="Running"), build.scaling(large)]
    assert removed(decide(build, [small, large], there)) == {}


def test_of_two_that_stand_for_one_pod_the_second_goes(build):
    pod = build.waiting("p", fraction="0.5", devices=4)
    both = [build.scaling(pod), build.scaling(pod, name="team-p-copy")]
    assert removed(decide(build, [pod], both)) == {"team-p-copy": "another one stands for the same pod"}


def test_one_that_another_version_made_is_known_by_its_labels(build):
    pod = build.waiting("p")
    theirs = build.scaling(pod)
    theirs.metadata.annotations = None
    theirs.metadata.labels = {"shared-gpu-pod-name": "p", "shared-gpu-pod-namespace": "team"}
    assert decide(build, [pod], [theirs]).remove == ()
    assert len(decide(build, [], [theirs]).remove) == 1


def test_one_that_is_going_already_is_left_alone(build):
    assert decide(build, [], [build.scaling(build.waiting(), going=True)]).remove == ()


# --- after one went ----------------------------------------------------------------------------
def test_none_is_made_for_a_while_after_one_was_removed(build):
    soon = decide(build, [build.waiting()], removed_ago={"team": 59.0})
    assert (soon.create, soon.again_in) == ((), pytest.approx(1))
    assert len(decide(build, [build.waiting()], removed_ago={"team": 60.0}).create) == 1


def test_who_lets_his_go_one_by_one_delays_nobody_elses(build):
    theirs = [build.scaling(build.waiting("old", namespace="other"), phase="Succeeded", node="n1")]
    found = decide(build, [build.waiting("p")], theirs, removed_ago={"other": 1.0})
    assert (created(found), list(removed(found))) == (["p"], ["other-old"])


def test_what_is_removed_now_delays_what_is_missing(build):
    ended = build.scaling(build.waiting("old"), phase="Succeeded", node="n1")
    adjustment = decide(build, [build.waiting("p")], [ended])
    assert (created(adjustment), list(removed(adjustment))) == ([], ["team-old"])
    assert adjustment.again_in == RULES.cool_down


def test_what_cannot_be_removed_delays_nothing(build):
    ended = build.scaling(build.waiting("old"), phase="Succeeded", node="n1")
    adjustment = decide(build, [build.waiting("p")], [ended], undeletable={ended.metadata.uid})
    assert (created(adjustment), list(removed(adjustment))) == (["p"], ["team-old"])


# --- names -------------------------------------------------------------------------------------
def test_a_name_that_somebody_has_is_not_taken_twice(build):
    one = build.waiting("b-c", namespace="a", fraction="0.9")
    other = build.waiting("c", namespace="a-b", fraction="0.9")
    first, second = decide(build, [one, other]).create
    assert first.name == "a-b-c"
    assert second.name.startswith("a-b-c-")
    (third,) = decide(build, [one], taken=["a-b-c"]).create
    assert third.name.startswith("a-b-c-")
