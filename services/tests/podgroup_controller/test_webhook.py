"""What the webhook answers; the rules themselves are tested where they are."""

import pytest

from kai.runtime.webhook import AdmissionRequest
from kai_podgroup_controller.webhook import review


def a_request(spec, *, operation="CREATE"):
    group = {"metadata": {"name": "g", "namespace": "team"}, "spec": spec}
    return AdmissionRequest(uid="1", operation=operation, name="g", namespace="team", object=group)


def test_a_sound_group_is_allowed():
    assert review(a_request({"queue": "q", "minMember": 2})).allowed


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"minMember": 1, "minSubGroup": 1}, "exclude each other"),
        ({"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]}, 'parent "b" does not exist'),
        ({"minMember": "two"}, "Expected `int"),
    ],
)
def test_a_group_that_makes_no_sense_is_refused_with_the_reason(spec, said):
    answer = review(a_request(spec))
    assert not answer.allowed
    assert said in answer.message
    assert "team/g" in answer.message


def test_deleting_is_always_allowed():
    assert review(AdmissionRequest(uid="1", operation="DELETE")).allowed
