"""The patch that is sent makes the pod that is meant, and nothing else of it is touched."""

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_admission.mutation.patch import difference

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("a~/", max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES.map(lambda value: {"pod": value}), VALUES.map(lambda value: {"pod": value}))
def test_the_patch_of_any_two_values_makes_one_of_the_other(old, new):
    assert jsonpatch.apply_patch(old, list(difference(old, new))) == new


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b/c": 1}}, {"a": {"b/c": 2}}, [{"op": "replace", "path": "/a/b~1c", "value": 2}]),
        ({"env": [1]}, {"env": [1, 2]}, [{"op": "add", "path": "/env/-", "value": 2}]),
        ({"env": []}, {"env": [2]}, [{"op": "replace", "path": "/env", "value": [2]}]),
        ({"env": [1, 2]}, {"env": [2]}, [{"op": "replace", "path": "/env", "value": [2]}]),
        ({"a": 1}, {"b": 1}, [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/b", "value": 1}]),
    ],
)
def test_what_is_equal_stays(old, new, patch):
    assert list(difference(old, new)) == patch
