"""Whose an object is."""

import pytest

from kai_operator.ownership import Standing, standing, whose


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
        (references(), Standing.OURS),
        # A Config that was deleted and made again.
        (references(uid="before"), Standing.LEFT),
        (references(kind="SchedulingShard"), Standing.FOREIGN),
        (references(kind="Deployment", apiVersion="apps/v1"), Standing.FOREIGN),
        (references(controller=False), Standing.FOREIGN),
        ({"labels": {**PART, **HELM}}, Standing.LEFT),
        ({"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}, Standing.LEFT),
        ({"labels": HELM}, Standing.FOREIGN),
        ({}, Standing.FOREIGN),
        ({**references(kind="Other"), "labels": PART}, Standing.FOREIGN),
    ],
    ids=str,
)
def test_what_an_earlier_release_left_can_be_taken_over_and_nothing_else(metadata, expected):
    assert standing({"metadata": metadata}, OURS) is expected


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
