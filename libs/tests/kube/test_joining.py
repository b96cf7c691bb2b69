"""Two statuses as one: the same as one after the other, or not joined at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.kube.joining import joined, may_join
from kai.kube.ranks import Rank
from kai.kube.request import MERGE_PATCH, STRATEGIC_PATCH, Request
from kai.model.merge_patch import merged


def a_patch(body, *, content_type=MERGE_PATCH, rank=Rank.STATUS, **options):
    return Request(
        verb="patch",
        resource="podgroups/status",
        path="/groups/a/status",
        method="PATCH",
        data=json.dumps(body).encode(),
        content_type=content_type,
        rank=rank,
        **options,
    )


def join(older, newer, **options):
    found = joined(a_patch(older, **options), a_patch(newer, **options))
    return None if found is None else json.loads(found)


NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2)),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_one_does_what_both_do_one_after_the_other(target, older, newer):
    both = join(older, newer)
    if both is not None:
        assert merged(target, both) == merged(merged(target, older), newer)


def test_the_newer_value_counts_and_what_it_leaves_out_stays():
    older = {"status": {"running": 1, "conditions": [1], "resources": {"cpu": 1, "gpu": 1}}}
    newer = {"status": {"running": 2, "resources": {"gpu": None}}}
    assert join(older, newer) == {
        "status": {"running": 2, "conditions": [1], "resources": {"cpu": 1, "gpu": None}}
    }


def test_conditions_of_a_strategic_patch_are_joined_by_their_types():
    older = {"status": {"conditions": [{"type": "A", "status": "False", "reason": "x"}, {"type": "B"}]}}
    newer = {"status": {"conditions": [{"type": "A", "status": "True", "message": "y"}]}}
    assert join(older, newer, content_type=STRATEGIC_PATCH) == {
        "status": {
            "conditions": [{"type": "A", "status": "True", "reason": "x", "message": "y"}, {"type": "B"}]
        }
    }


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"metadata": {"uid": "1"}}, {"metadata": {"uid": "2"}}),
        ({"metadata": {"uid": "1"}, "status": {}}, {"status": {}}),
    ],
)
def test_patches_of_different_versions_stay_apart(older, newer):
    assert join(older, newer) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"status": {"a": None}}, {"status": {"a": {"b": 1}}}),
        ({"status": 5}, {"status": {"a": 1}}),
    ],
)
def test_what_would_be_replaced_before_a_part_of_it_changes_stays_apart(older, newer):
    assert join(older, newer) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"status": {"podIPs": [1]}}, {"status": {"podIPs": [2]}}),
        ({"status": {"$patch": "replace", "a": 1}}, {"status": {"a": 2}}),
        ({"status": {"a": 1}}, {"status": {"$retainKeys": ["a"]}}),
        (
            {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}},
            {"status": {"conditions": [{"type": "A"}]}},
        ),
        ({"status": {"conditions": None}}, {"status": {"conditions": [{"type": "A"}]}}),
        ({"status": {}}, {"status": {"conditions": [{"status": "no type"}]}}),
    ],
)
def test_of_what_a_strategic_patch_means_by_a_list_only_conditions_are_known(older, newer):
    assert join(older, newer, content_type=STRATEGIC_PATCH) is None


def test_different_kinds_of_patches_stay_apart():
    older, newer = a_patch({}), a_patch({}, content_type=STRATEGIC_PATCH)
    assert joined(older, newer) is None
    assert joined(a_patch({}, params={"fieldManager": "a"}), newer) is None


def test_only_statuses_are_joined():
    assert may_join(a_patch({}))
    assert not may_join(a_patch({}, rank=Rank.NEED))
    assert not may_join(a_patch({}, content_type="application/json-patch+json"))
