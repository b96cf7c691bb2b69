"""How much of a pod group has to start together."""

import msgspec
import pytest

from kai.model.objects import PodGroupSpec, SubGroup
from kai.model.rules import minimums


def a_spec(**fields):
    return msgspec.convert(fields, PodGroupSpec)


def leaf(name, minimum=None, parent=None):
    return {"name": name, "minMember": minimum, "parent": parent}


def inner(name, minimum=None, parent=None):
    return {"name": name, "minSubGroup": minimum, "parent": parent}


TWO = [leaf("a", 2), leaf("b", 3)]


@pytest.mark.parametrize(
    ("spec", "at_once", "gang"),
    [
        pytest.param(a_spec(), 1, False, id="nothing is said"),
        pytest.param(a_spec(minMember=0), 0, False, id="no pod is needed"),
        pytest.param(a_spec(minMember=1), 1, False, id="one"),
        pytest.param(a_spec(minMember=4), 4, True, id="four"),
        pytest.param(a_spec(minSubGroup=2), 1, False, id="of subgroups that are not there"),
        pytest.param(a_spec(subGroups=[]), 1, False, id="no subgroups"),
        pytest.param(a_spec(subGroups=TWO), 5, True, id="all subgroups"),
        pytest.param(a_spec(subGroups=TWO, minMember=9), 5, True, id="pods of subgroups are theirs"),
        pytest.param(a_spec(subGroups=TWO, minSubGroup=1), None, True, id="one subgroup of two"),
        pytest.param(a_spec(subGroups=[leaf("a")]), 0, True, id="a subgroup that says nothing"),
        pytest.param(
            a_spec(subGroups=[inner("top"), leaf("a", 2, "top"), leaf("b", 1, "TOP")]),
            3,
            True,
            id="two levels",
        ),
        pytest.param(
            a_spec(subGroups=[inner("top", 1), leaf("a", 2, "top"), leaf("b", 1, "top")]),
            None,
            True,
            id="one of two below another",
        ),
        pytest.param(
            a_spec(subGroups=[{"name": "top", "minMember": 7}, leaf("a", 2, "top")]),
            2,
            True,
            id="pods of a subgroup that has others below it",
        ),
    ],
)
def test_so_many_pods_start_together(spec, at_once, gang):
    assert (minimums.pods_at_once(spec), minimums.is_gang(spec)) == (at_once, gang)


@pytest.mark.parametrize(("said", "counts"), [(None, 0), (0, 0), (1, 1), (3, 3)])
def test_a_subgroup_needs_no_pod_unless_it_says_so(said, counts):
    assert minimums.pods_of_leaf(SubGroup(name="a", min_member=said)) == counts


@pytest.mark.parametrize(("said", "children", "counts"), [(None, 3, 3), (0, 3, 0), (2, 3, 2), (4, 3, 4)])
def test_all_subgroups_are_needed_unless_it_is_said_how_many(said, children, counts):
    assert minimums.subgroups(said, children) == counts


def test_children_are_counted_by_parent_in_any_case_of_letters():
    parts = a_spec(subGroups=[inner("Top"), leaf("a", 1, "top"), leaf("b", 1, "TOP")]).sub_groups
    assert minimums.children(parts) == {"": 1, "top": 2}


HEAD = leaf("head", 1)
GROWN = {
    "pods of a group": (a_spec(minMember=2), a_spec(minMember=5), a_spec(minMember=2)),
    "pods of a subgroup": (
        a_spec(subGroups=[HEAD, leaf("w", 1)]),
        a_spec(subGroups=[HEAD, leaf("w", 4)]),
        a_spec(subGroups=[HEAD, leaf("w", 1)]),
    ),
    "all instead of some, beside a sum of pods": (
        a_spec(minSubGroup=1, subGroups=TWO),
        a_spec(minMember=5, subGroups=TWO),
        a_spec(minSubGroup=1, subGroups=TWO),
    ),
    "pods of the only subgroup, under another name": (
        a_spec(subGroups=[leaf("a", 2)]),
        a_spec(subGroups=[leaf("b", 9)]),
        a_spec(subGroups=[leaf("b", 2)]),
    ),
    "subgroups that change places": (
        a_spec(subGroups=[inner("x", 0), leaf("a", 5, "x"), leaf("b", 1)]),
        a_spec(subGroups=[inner("x", 0), leaf("b", 1, "x"), leaf("a", 5)]),
        a_spec(minSubGroup=0, subGroups=[inner("x", 0), leaf("b", 1, "x"), leaf("a", 5)]),
    ),
}


@pytest.mark.parametrize(("before", "after", "kept"), GROWN.values(), ids=GROWN.keys())
def test_what_nobody_may_take_stays_as_small_as_it_was(before, after, kept):
    assert minimums.not_raised(before, after) == kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(a_spec(minMember=5), a_spec(minMember=2), id="fewer"),
        pytest.param(
            a_spec(minMember=1, subGroups=[HEAD]),
            a_spec(minMember=4, subGroups=[HEAD, leaf("workers", 3)]),
            id="a subgroup more, in which nothing runs",
        ),
        pytest.param(
            a_spec(subGroups=[inner("x", 1), leaf("a", 1, "x")]),
            a_spec(subGroups=[inner("x", 2), leaf("a", 1, "x"), leaf("b", 1, "x")]),
            id="a subgroup more below another",
        ),
        pytest.param(
            a_spec(minSubGroup=1, subGroups=[HEAD]),
            a_spec(minSubGroup=1, subGroups=[HEAD, leaf("w", 3)]),
            id="one of more",
        ),
    ],
)
def test_what_takes_nothing_that_runs_stays_as_it_is_wanted(before, after):
    assert minimums.not_raised(before, after) == after


def test_what_is_no_tree_has_a_size_all_the_same():
    circle = [leaf("a", 1, "b"), leaf("b", 1, "a"), leaf("", 1), leaf("twice", 1), leaf("twice", 1, "twice")]
    spec = a_spec(subGroups=circle)
    assert minimums.core_sizes(spec, spec) == (2, 2)
