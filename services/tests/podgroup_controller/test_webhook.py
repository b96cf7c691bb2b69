"""What the webhook answers; the rules themselves are tested where they are."""

import pytest

from kai.runtime.webhook import AdmissionRequest
from kai_podgroup_controller.webhook import review


def a_request(spec, *, operation="CREATE", before=None):
    meta = {"name": "g", "namespace": "team"}
    old = None if before is None else {"metadata": meta, "spec": before}
    return AdmissionRequest(
        uid="1", operation=operation, name="g", namespace="team",
        object={"metadata": meta, "spec": spec}, old_object=old,
    )  # fmt: skip


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


SEMI = {"preemptibility": "semi-preemptible"}


def test_a_minimum_that_nobody_may_take_does_not_grow():
    answer = review(a_request({**SEMI, "minMember": 3}, operation="UPDATE", before={**SEMI, "minMember": 2}))
    assert not answer.allowed
    assert "spec.minMember must not grow from 2 to 3" in answer.message


def test_what_is_stored_and_cannot_be_read_keeps_nobody_from_mending_it():
    before = {**SEMI, "minMember": "two"}
    assert review(a_request({**SEMI, "minMember": 3}, operation="UPDATE", before=before)).allowed


LOST = {"subGroups": [{"name": "a", "minMember": 1, "parent": "b"}]}


@pytest.mark.parametrize("spec", [LOST, {"minMember": "two"}], ids=["broken", "unreadable"])
def test_what_is_stored_and_makes_no_sense_can_be_annotated_and_can_go(spec):
    """Older releases, or a webhook that was switched off, let it be written."""
    for metadata in ({"annotations": {"a": "b"}}, {"deletionTimestamp": "2026-11-21T10:00:00Z"}):
        request = a_request(spec, operation="UPDATE", before=spec)
        request.object["metadata"] = {**request.object["metadata"], **metadata}
        assert review(request).allowed
        request.old_object["spec"] = {**spec, "queue": "other"}
        assert not review(request).allowed
