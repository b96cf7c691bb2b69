"""Whether a part of a job has enough, by whatever its pod sets are said to hold."""

import pytest

from kai.model.objects import ObjectMeta, PodGroup, PodGroupSpec, SubGroup
from kai.snapshot.core import enough, filled
from kai.snapshot.jobs import tree

LEAVES = [
    SubGroup(name="a", min_member=2),
    SubGroup(name="b", min_member=1),
    SubGroup(name="c", min_member=0),
]
BELOW = [
    SubGroup(name="top", min_sub_group=1),
    *(SubGroup(name=each.name, min_member=each.min_member, parent="top") for each in LEAVES),
    SubGroup(name="d", min_member=1),
]


@pytest.mark.parametrize(
    ("parts", "needed", "held", "count", "is_enough"),
    [
        pytest.param(LEAVES, None, {"a": 2, "b": 1}, 3, True, id="all have what they need"),
        pytest.param(LEAVES, None, {"a": 1, "b": 1}, 2, False, id="one lacks a pod"),
        pytest.param(LEAVES, 2, {"a": 1, "b": 1}, 2, True, id="it may lack one"),
        pytest.param(LEAVES, 2, {"a": 9}, 2, True, id="more pods of one make up for no other"),
        pytest.param(LEAVES, 3, {"a": 9}, 2, False, id="and so it lacks one"),
        pytest.param(LEAVES, 0, {}, 1, True, id="none is needed"),
        pytest.param(BELOW, None, {"a": 2, "d": 1}, 2, True, id="below one that has enough"),
        pytest.param(BELOW, None, {"a": 2}, 1, False, id="one beside it lacks all"),
    ],
)
def test_members_count_that_have_what_they_need(parts, needed, held, count, is_enough):
    spec = PodGroupSpec(sub_groups=parts, min_sub_group=needed)
    root, _, error = tree(PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec))
    assert not error

    def pods(pod_set):
        return range(held.get(pod_set.name, 0))

    assert (filled(root, pods), enough(root, pods)) == (count, is_enough)
