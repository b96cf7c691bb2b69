"""Which shared devices a pod was given."""

import pytest

from kai.model import limits
from kai.model.rules.gpu_groups import gpu_group_labels, gpu_groups, is_gpu_group_label

ONE, MANY = "runai-gpu-group", "runai-gpu-group/"


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        (None, ()),
        ({}, ()),
        ({"app": "a"}, ()),
        ({ONE: "g"}, ("g",)),
        ({ONE: ""}, ()),
        ({f"{MANY}b": "b", f"{MANY}a": "a"}, ("a", "b")),
        ({f"{MANY}b": "", f"{MANY}a": "a"}, ("a", "b")),
        ({f"{MANY}x": "g", f"{MANY}y": "g"}, ("g",)),
        ({ONE: "c", f"{MANY}a": "a"}, ("a", "c")),
        ({ONE: "a", f"{MANY}a": "a"}, ("a",)),
        ({"runai-gpu-groups": "g"}, ()),
        ({"example.com-runai-gpu-group/x": "x"}, ()),
        ({"my-runai-gpu-group/x": "x", ONE: "g"}, ("g",)),
    ],
)
def test_labels_in_either_form_name_the_groups(labels, groups):
    assert gpu_groups(labels) == groups


def test_nobody_has_more_groups_than_a_pod_may_have_of_them():
    labels = {f"{MANY}{i:05}": "" for i in range(limits.GPU_GROUPS.most + 5)}
    assert len(gpu_groups(labels)) == limits.GPU_GROUPS.most


@pytest.mark.parametrize("groups", [("a",), ("a", "b")])
def test_what_is_written_is_read(groups):
    labels = gpu_group_labels(groups)
    assert all(map(is_gpu_group_label, labels))
    assert gpu_groups(labels) == groups


def test_other_labels_are_not_of_groups():
    assert not is_gpu_group_label("app")
    assert not is_gpu_group_label("runai-gpu-groups")
