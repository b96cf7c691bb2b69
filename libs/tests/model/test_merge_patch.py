"""JSON merge patches."""

import pytest

from kai.model.merge_patch import merged

MERGES = {
    "members are added and replaced": (
        {"a": 1, "b": {"c": 2}},
        {"b": {"d": 3}, "e": 4},
        {"a": 1, "b": {"c": 2, "d": 3}, "e": 4},
    ),
    "null removes": ({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": None}}, {"b": {"d": 3}}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "an object takes the place of a scalar": ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
}


@pytest.mark.parametrize(("target", "body", "result"), MERGES.values(), ids=MERGES.keys())
def test_a_merge_patch(target, body, result):
    assert merged(target, body) == result


def test_what_a_patch_does_not_name_is_shared_and_nothing_is_changed():
    target = {"kept": {"a": 1}, "changed": {"b": 2}}
    result = merged(target, {"changed": {"b": None}})
    assert result["kept"] is target["kept"]
    assert target == {"kept": {"a": 1}, "changed": {"b": 2}}
