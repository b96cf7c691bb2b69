import pytest

from kai.model.objects import ObjectMeta, PodGroup, PodGroupSpec, SubGroup
from kai.validation import pod_groups
from kai.validation.registration import of_pod_groups
from kai_local.apiserver.schemas import cel


def a_pod_group(*parts, **spec):
    return PodGroup(
        metadata=ObjectMeta(name="pg", namespace="team"),
        spec=PodGroupSpec(sub_groups=list(parts) or None, **spec),
    )


def leaf(name, parent=None, min_member=1):
    return SubGroup(name=name, parent=parent, min_member=min_member)


def inner(name, parent=None, min_sub_group=None):
    return SubGroup(name=name, parent=parent, min_sub_group=min_sub_group)


def chain(levels):
    return [
        inner("s0"),
        *(inner(f"s{i}", f"s{i - 1}") for i in range(1, levels - 1)),
        leaf("end", f"s{levels - 2}"),
    ]


REFUSED = {
    "1500 levels": (a_pod_group(*chain(1500)), "spec.subGroups is '1500'; it must be at most 1000 subgroups"),
    "17 levels": (a_pod_group(*chain(17)), "spec.subGroups[].parent is '17'; it must be at most 16 levels"),
    "5000 parts": (a_pod_group(*(leaf(f"s{i}") for i in range(5000))), "at most 1000 subgroups"),
    "a gang of 2^31": (
        a_pod_group(min_member=2**31),
        "spec.minMember is '2147483648'; it must be at most 1000000",
    ),
    "both minima at the root": (
        a_pod_group(min_member=2, min_sub_group=1),
        "spec.minMember and spec.minSubGroup",
    ),
    "both minima at the root, as zeros": (a_pod_group(min_member=0, min_sub_group=0), "exclude each other"),
    "two subgroups of one name": (a_pod_group(leaf("a"), leaf("a")), 'more than one "a"'),
    "a parent that does not exist": (a_pod_group(leaf("a", parent="b")), 'parent "b" does not exist'),
    "its own parent": (a_pod_group(leaf("a", parent="a")), "a -> a form a circle"),
    "a circle of three": (
        a_pod_group(leaf("a", parent="b"), leaf("b", parent="c"), leaf("c", parent="a")),
        "a -> b -> c -> a form a circle",
    ),
    "both minima of a leaf": (
        a_pod_group(SubGroup(name="a", min_member=1, min_sub_group=1)),
        'subgroup "a": minMember and minSubGroup exclude each other; keep minMember',
    ),
    "both minima of an inner one": (
        a_pod_group(SubGroup(name="a", min_member=1, min_sub_group=1), leaf("b", parent="a")),
        "keep minSubGroup",
    ),
    "a leaf that counts subgroups": (a_pod_group(inner("a", min_sub_group=1)), "set minMember instead"),
    "a leaf that counts no subgroups": (a_pod_group(inner("a", min_sub_group=0)), "set minMember instead"),
    "a leaf without a minimum": (a_pod_group(SubGroup(name="a")), "minMember is missing"),
    "a delay without a unit": (a_pod_group(min_member=1, preemption_delay="5"), "spec.preemptionDelay"),
    "a grace period in days": (
        a_pod_group(min_member=1, staleness_grace_period="1d"),
        "spec.stalenessGracePeriod",
    ),
}


@pytest.mark.parametrize("updating", [False, True], ids=["create", "update"])
@pytest.mark.parametrize(("group", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_object_field_and_remedy(group, said, updating):
    verdict = pod_groups.check(group, updating=updating)
    assert not verdict.allowed
    assert verdict.message.startswith("podgroup team/pg: ")
    assert said in verdict.message


def test_inner_subgroups_may_not_count_pods_unless_they_already_did():
    group = a_pod_group(SubGroup(name="a", min_member=1), leaf("b", parent="a"))
    assert "set minSubGroup instead" in pod_groups.check(group).message
    kept = pod_groups.check(group, updating=True)
    assert kept.allowed


ACCEPTED = {
    "nothing at all": a_pod_group(),
    "a gang": a_pod_group(min_member=4),
    "no gang": a_pod_group(min_member=0),
    "a gang with parts": a_pod_group(leaf("leader"), leaf("workers", min_member=4), min_member=5),
    "an elastic part": a_pod_group(leaf("a", min_member=0), min_sub_group=0),
    "a tree of three levels": a_pod_group(
        inner("segment-0", min_sub_group=2),
        leaf("leader", parent="segment-0"),
        inner("workers", parent="segment-0"),
        leaf("a", parent="workers", min_member=3),
        min_sub_group=1,
    ),
    "durations": a_pod_group(min_member=1, preemption_delay="5m", staleness_grace_period="-1s"),
    "one attempt": a_pod_group(min_member=1, scheduling_backoff=1),
}


@pytest.mark.parametrize("updating", [False, True], ids=["create", "update"])
@pytest.mark.parametrize("group", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(group, updating):
    verdict = pod_groups.check(group, updating=updating)
    assert verdict.allowed, verdict.message


def test_a_broken_tree_is_reported_alone():
    group = a_pod_group(leaf("a", parent="gone"), SubGroup(name="b"), min_member=1, min_sub_group=1)
    assert pod_groups.check(group).errors == (
        (
            'podgroup team/pg: subgroup "a": parent "gone" does not exist; '
            "name another subgroup or leave parent out to put it at the top"
        ),
    )


def test_all_other_errors_come_together_in_the_order_of_names():
    group = a_pod_group(SubGroup(name="b"), SubGroup(name="a"), min_member=1, min_sub_group=3)
    verdict = pod_groups.check(group)
    assert [("spec.minMember" in e, '"a"' in e, '"b"' in e) for e in verdict.errors] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_a_subgroup_without_a_name_is_no_endless_tree():
    group = a_pod_group(SubGroup(name="", min_member=1), leaf("a", parent="b"), leaf("b", parent="a"))
    assert not pod_groups.check(group).allowed


SEMI = {"preemptibility": "semi-preemptible"}
BEFORE_AND_AFTER = {
    "a minimum that grows": (
        a_pod_group(min_member=2, **SEMI),
        a_pod_group(min_member=3, **SEMI),
        "minMember",
    ),
    "a minimum that is said": (a_pod_group(**SEMI), a_pod_group(min_member=2, **SEMI), "from 1 to 2"),
    "of a subgroup": (
        a_pod_group(leaf("a"), **SEMI),
        a_pod_group(leaf("a", min_member=2), **SEMI),
        'subgroup "a": minMember must not grow from 1 to 2',
    ),
    "how many subgroups": (
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=2, **SEMI),
        "spec.minSubGroup must not grow from 1 to 2",
    ),
    "all subgroups instead of some": (
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
        a_pod_group(leaf("a"), leaf("b"), **SEMI),
        "spec.minSubGroup must not grow from 1 to 2",
    ),
    "one subgroup more and all, where some were needed": (
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
        a_pod_group(leaf("a"), leaf("b"), leaf("c"), min_sub_group=2, **SEMI),
        "spec.minSubGroup must not grow from 1 to 2",
    ),
    "subgroups that take over the pods": (
        a_pod_group(min_member=1, **SEMI),
        a_pod_group(leaf("a", min_member=8), **SEMI),
        "spec.minSubGroup must not grow from 0 to 1",
    ),
    "subgroups that were counted before there were any": (
        a_pod_group(min_sub_group=1, **SEMI),
        a_pod_group(leaf("a", min_member=8), min_sub_group=1, **SEMI),
        "spec.minSubGroup must not grow from 0 to 1",
    ),
    "no subgroups any more": (
        a_pod_group(leaf("a", min_member=2), leaf("b"), min_member=9, **SEMI),
        a_pod_group(min_member=9, **SEMI),
        "spec.minMember must not grow from 3 to 9",
    ),
    "no subgroups any more, of which some were needed": (
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
        a_pod_group(min_member=1, **SEMI),
        "spec.minMember must not grow from 0 to 1",
    ),
    "how many below a subgroup": (
        a_pod_group(inner("x", min_sub_group=1), leaf("a", "x"), leaf("b", "x"), **SEMI),
        a_pod_group(inner("x"), leaf("a", "x"), leaf("b", "x"), **SEMI),
        'subgroup "x": minSubGroup must not grow from 1 to 2',
    ),
    "of the only subgroup, under another name": (
        a_pod_group(leaf("a"), **SEMI),
        a_pod_group(leaf("b", min_member=2), **SEMI),
        'subgroup "b": minMember must not grow from 1 to 2',
    ),
    "how many below a subgroup, under another name": (
        a_pod_group(inner("x", min_sub_group=0), leaf("a", "x"), **SEMI),
        a_pod_group(inner("y"), leaf("a", "y"), **SEMI),
        "pods in subgroups that were there 1 must not be needed where 0 were",
    ),
    "subgroups that change places": (
        a_pod_group(inner("x", min_sub_group=0), leaf("a", "x", min_member=5), leaf("b"), **SEMI),
        a_pod_group(inner("x", min_sub_group=0), leaf("a", min_member=5), leaf("b", "x"), **SEMI),
        "pods in subgroups that were there 5 must not be needed where 1 were",
    ),
    "all of some, below a new one": (
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
        a_pod_group(inner("x"), leaf("a", "x"), leaf("b", "x"), **SEMI),
        "pods in subgroups that were there 2 must not be needed where 1 were",
    ),
}
FINE = {
    "another name, and as many pods": (
        a_pod_group(leaf("a", min_member=2), **SEMI),
        a_pod_group(leaf("b", min_member=2), **SEMI),
    ),
    "another one in place of one, beside what stays": (
        a_pod_group(leaf("head"), leaf("a"), **SEMI),
        a_pod_group(leaf("head"), leaf("b", min_member=7), **SEMI),
    ),
    "all below a new one that needs all": (
        a_pod_group(leaf("a"), leaf("b"), **SEMI),
        a_pod_group(inner("x"), leaf("a", "x"), leaf("b", "x"), **SEMI),
    ),
    "a minimum that falls": (a_pod_group(min_member=3, **SEMI), a_pod_group(min_member=2, **SEMI)),
    "nothing": (a_pod_group(min_member=3, **SEMI), a_pod_group(min_member=3, **SEMI)),
    "one subgroup more where some are needed": (
        a_pod_group(leaf("a"), min_sub_group=1, **SEMI),
        a_pod_group(leaf("a"), leaf("b"), min_sub_group=1, **SEMI),
    ),
    "one subgroup more where all are needed, since nothing runs in it": (
        a_pod_group(leaf("a"), min_member=1, **SEMI),
        a_pod_group(leaf("a"), leaf("b", min_member=3), min_member=4, **SEMI),
    ),
    "one more below a subgroup that needs all": (
        a_pod_group(inner("x", min_sub_group=1), leaf("a", "x"), **SEMI),
        a_pod_group(inner("x", min_sub_group=2), leaf("a", "x"), leaf("b", "x"), **SEMI),
    ),
    "more subgroups than there are, as before": (
        a_pod_group(leaf("a"), min_sub_group=2, **SEMI),
        a_pod_group(leaf("a"), min_sub_group=2, **SEMI),
    ),
    "as many pods without subgroups": (
        a_pod_group(leaf("a", min_member=2), leaf("b"), **SEMI),
        a_pod_group(min_member=3, **SEMI),
    ),
    "one that was not semi-preemptible": (a_pod_group(min_member=1), a_pod_group(min_member=2, **SEMI)),
    "one that is it no longer": (a_pod_group(min_member=1, **SEMI), a_pod_group(min_member=2)),
}


@pytest.mark.parametrize(("before", "after", "said"), BEFORE_AND_AFTER.values(), ids=BEFORE_AND_AFTER.keys())
def test_what_nobody_may_take_of_a_semi_preemptible_group_does_not_grow(before, after, said):
    verdict = pod_groups.check(after, updating=True, before=before)
    assert not verdict.allowed
    assert said in verdict.message


@pytest.mark.parametrize(("before", "after"), FINE.values(), ids=FINE.keys())
def test_other_changes_of_minimums_are_allowed(before, after):
    assert pod_groups.check(after, updating=True, before=before).allowed


PART = {"name": "a", "minMember": 1}
SEMI_ONE = {"spec": {"minMember": 1, **SEMI}}
ASKED_ABOUT = {
    "a new gang": (None, {"spec": {"minMember": 4}}, False),
    "a new gang with a part": (None, {"spec": {"subGroups": [PART]}}, True),
    "a gang that grows": ({"spec": {"minMember": 1}}, {"spec": {"minMember": 4}}, False),
    "a minimum that nobody may take and that grows": (SEMI_ONE, {"spec": {"minMember": 4, **SEMI}}, True),
    "parts that go": ({"spec": {"subGroups": [PART], **SEMI}}, {"spec": {"minMember": 4, **SEMI}}, True),
    "another label of one with a part": (
        {"spec": {"subGroups": [PART]}},
        {"spec": {"subGroups": [PART]}, "metadata": {"labels": {"x": "y"}}},
        False,
    ),
    "another label": (SEMI_ONE, SEMI_ONE | {"metadata": {"labels": {"x": "y"}}}, False),
    "one that becomes semi-preemptible": ({"spec": {"minMember": 1}}, SEMI_ONE, False),
    "one without a spec": ({}, SEMI_ONE, False),
    "one that loses its spec": (SEMI_ONE, {}, False),
}


@pytest.mark.parametrize(("before", "after", "asked"), ASKED_ABOUT.values(), ids=ASKED_ABOUT.keys())
def test_the_api_server_asks_about_what_may_be_refused(before, after, asked):
    (webhook,) = of_pod_groups(lambda service, path: {})["webhooks"]
    holds = [
        cel.evaluate(condition["expression"], object=after, oldObject=before)
        for condition in webhook["matchConditions"]
    ]
    assert all(holds) is asked
