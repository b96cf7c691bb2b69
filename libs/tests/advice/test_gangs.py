"""What has to start together of a group whose pods ask for different things, held against all choices."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.advice.gangs import Alike, least
from kai.model.objects import PodGroupSpec, SubGroup


def gpus(number, count, sub_group=""):
    return Alike({"gpu": float(number)}, count, sub_group)


def a_tree(*leaves, least_of_group=None, **spec):
    return PodGroupSpec(
        sub_groups=[SubGroup(name=name, min_member=size, parent=parent) for name, size, parent in leaves],
        min_sub_group=least_of_group,
        **spec,
    )


def test_pods_that_all_ask_for_the_same_are_counted():
    assert least(PodGroupSpec(min_member=60), [gpus(8, 60)]) == {"gpu": 480, "pods": 60}


def test_of_more_pods_than_are_needed_those_count_that_ask_for_least():
    assert least(PodGroupSpec(min_member=3), [gpus(8, 10), gpus(0, 1)]) == {"gpu": 16, "pods": 3}


def test_a_group_that_does_not_say_how_many_it_needs_needs_one():
    assert least(PodGroupSpec(), [gpus(8, 10)]) == {"gpu": 8, "pods": 1}


def test_each_subgroup_needs_its_own():
    tree = a_tree(("head", 1, None), ("small", 2, None), ("large", 4, None))
    pods = [gpus(0, 1, "head"), gpus(1, 10, "small"), gpus(8, 4, "large")]
    assert least(tree, pods) == {"gpu": 34, "pods": 7}


def test_a_subgroup_of_which_no_pod_is_known_has_those_beside_it():
    tree = a_tree(
        ("driver", 1, None),
        ("workers", None, None),
        *((f"workers-{n}", 2, "workers") for n in range(10)),
    )
    assert least(tree, [gpus(0, 1, "driver"), gpus(8, 20, "workers-0")]) == {"gpu": 160, "pods": 21}


def test_where_the_group_may_choose_it_is_the_least_of_each_resource():
    tree = a_tree(("a", 2, None), ("b", 1, None), least_of_group=1)
    assert least(tree, [gpus(1, 2, "a"), gpus(8, 1, "b")]) == {"gpu": 2, "pods": 1}


def test_names_of_parents_are_found_in_any_case():
    tree = a_tree(("Workers", None, None), ("w-0", 3, "workers"))
    assert least(tree, [gpus(8, 3, "W-0")]) == {"gpu": 24, "pods": 3}


@pytest.mark.parametrize("name", ["", "a"])
def test_what_stands_below_itself_is_walked_over_once(name):
    assert least(a_tree((name, 2, name)), [gpus(8, 2)])["pods"] >= 0


@st.composite
def groups(draw):
    """A group of two levels at most, and its pods: of each the leaf and what it asks for."""
    parents = {name: draw(st.integers(1, 3)) for name in "ab"[: draw(st.integers(1, 2))]}
    leaves = [
        (f"{parent}{number}", draw(st.integers(0, 2)), parent)
        for parent, many in parents.items()
        for number in range(many)
    ]
    needed = {name: draw(st.none() | st.integers(0, many)) for name, many in parents.items()}
    inner = [SubGroup(name=name, min_sub_group=needed[name]) for name in parents]
    spec = PodGroupSpec(
        sub_groups=[*inner, *(SubGroup(name=name, min_member=size, parent=p) for name, size, p in leaves)],
        min_sub_group=draw(st.none() | st.integers(0, len(parents))),
    )
    pods = [
        (name, asked)
        for name, size, _ in leaves
        for asked in draw(st.lists(st.integers(0, 8), min_size=size, max_size=size + 2))
    ]
    return spec, parents, leaves, needed, pods


def choices(spec, parents, leaves, needed, pods):
    """What any pods ask for that are enough."""
    of_leaf = {name: [asked for leaf, asked in pods if leaf == name] for name, _, _ in leaves}
    enough = {name: [sum(some) for some in combinations(of_leaf[name], size)] for name, size, _ in leaves}
    below = {name: [leaf for leaf, _, parent in leaves if parent == name] for name in parents}
    of_parent = {
        name: [
            sum(amounts)
            for some in combinations(below[name], _of(needed[name], many))
            for amounts in product(*(enough[leaf] for leaf in some))
        ]
        for name, many in parents.items()
    }
    for some in combinations(parents, _of(spec.min_sub_group, len(parents))):
        for amounts in product(*(of_parent[name] for name in some)):
            yield sum(amounts)


def _of(needed, many):
    return many if needed is None else needed


@given(groups())
def test_no_choice_of_pods_asks_for_less_and_one_asks_for_no_more(drawn):
    spec, *_, pods = drawn
    alike = [gpus(asked, 1, leaf) for leaf, asked in pods]
    found = least(spec, alike).get("gpu", 0.0)
    assert found == min(choices(*drawn))
