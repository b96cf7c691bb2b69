"""Whose an object is."""

import pytest

from kai_operator.ownership import Ownership, ownership, runs_another_program, whose


def references(**changes):
    return {"ownerReferences": [{**OURS, **changes}]}


OURS = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "Config",
    "name": "kai-config",
    "uid": "u",
    "controller": True,
}
PART = {"app.kubernetes.io/part-of": "kai-scheduler"}
HELM = {"app.kubernetes.io/managed-by": "Helm"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (references(), Ownership.OURS),
        # A Config that was deleted and made again.
        (references(uid="before"), Ownership.LEFT),
        (references(kind="SchedulingShard"), Ownership.FOREIGN),
        (references(kind="Deployment", apiVersion="apps/v1"), Ownership.FOREIGN),
        (references(controller=False), Ownership.FOREIGN),
        ({"labels": {**PART, **HELM}}, Ownership.LEFT),
        ({"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}, Ownership.LEFT),
        ({"labels": HELM}, Ownership.FOREIGN),
        ({}, Ownership.FOREIGN),
        ({**references(kind="Other"), "labels": PART}, Ownership.FOREIGN),
    ],
    ids=str,
)
def test_what_an_earlier_release_left_can_be_taken_over_and_nothing_else(metadata, expected):
    assert ownership({"metadata": metadata}, OURS) is expected


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (references(kind="Job", name="x"), "Job x"),
        ({"labels": HELM}, "whoever is Helm"),
        ({}, "somebody else"),
    ],
)
def test_the_owner_is_named(metadata, said):
    assert whose({"metadata": metadata}) == said


def a_deployment(labels, of_pods):
    pods = {"metadata": {"labels": of_pods}}
    return {"kind": "Deployment", "metadata": {"labels": labels}, "spec": {"template": pods}}


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (a_deployment(PART, PART), False),
        (a_deployment({}, PART), False),
        (a_deployment(PART, {}), False),
        (a_deployment({"app.kubernetes.io/managed-by": "kai-operator"}, {"app": "binder"}), True),
    ],
    ids=["ours", "a label was removed", "of an earlier release of ours", "of the original"],
)
def test_another_program_under_our_names_bears_no_mark_of_us(live, expected):
    assert runs_another_program(live, a_deployment(PART, PART)) is expected


def test_what_runs_no_pods_is_no_program():
    assert not runs_another_program({"metadata": {}}, {"metadata": {"labels": PART}, "data": {}})
