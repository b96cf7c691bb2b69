"""Priority of pod groups, and who may be preempted."""

import pytest

from kai.model.objects import ObjectMeta, PriorityClass
from kai.model.rules.priorities import default_priority, is_preemptible, is_semi_preemptible, priority


def a_class(name, value, *, default=False):
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default)


CLASSES = {each.metadata.name: each for each in (a_class("train", 50), a_class("inference", 125))}


@pytest.mark.parametrize(
    ("name", "more", "value"),
    [
        ("train", (), 50),
        ("inference", (), 125),
        ("gone", (), 50),
        ("", (), 50),
        ("gone", (a_class("d", 200, default=True),), 200),
        ("", (a_class("d", 200, default=True),), 200),
        ("inference", (a_class("d", 200, default=True),), 125),
    ],
)
def test_a_group_has_the_priority_of_its_class_or_of_the_default_one(name, more, value):
    assert priority(name, CLASSES | {each.metadata.name: each for each in more}) == value


def test_of_several_default_classes_the_lowest_counts():
    classes = [a_class("b", 70, default=True), a_class("a", 90, default=True), a_class("c", 10)]
    assert default_priority(classes) == 70
    assert default_priority(reversed(classes)) == 70


@pytest.mark.parametrize(
    ("told", "value", "expected"),
    [
        ("preemptible", 125, True),
        ("non-preemptible", 50, False),
        ("semi-preemptible", 50, False),
        ("", 99, True),
        ("", 100, False),
        ("", -5, True),
        ("Preemptible", 125, False),
        ("Non-Preemptible", 50, True),
        ("whatever", 50, True),
        ("whatever", 100, False),
    ],
)
def test_preemptibility_is_said_or_follows_from_priority(told, value, expected):
    assert is_preemptible(told, value) is expected


@pytest.mark.parametrize(
    "told", ["", "preemptible", "non-preemptible", "Semi-Preemptible", "semi-preemptible"]
)
def test_only_a_group_that_says_so_is_semi_preemptible(told):
    assert is_semi_preemptible(told) is (told == "semi-preemptible")
