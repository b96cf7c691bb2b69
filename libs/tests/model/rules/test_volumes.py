"""Which claims a pod has, and which volumes could be theirs."""

import pytest

from kai.model.objects import ObjectMeta, Pod, PodSpec
from kai.model.rules.volumes import (
    SELECTED_NODE,
    claim_names,
    is_made_for,
    is_to_be_had,
    own_claim_names,
    selected_node,
    storage_bytes,
    suits,
)

CLAIM = {"metadata": {"namespace": "ns", "name": "c", "uid": "u"}, "spec": {}}


def test_claims_are_those_of_volumes_and_of_ephemeral_volumes():
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c1"}},
        {"name": "b", "emptyDir": {}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "again", "persistentVolumeClaim": {"claimName": "c1"}},
    ]
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns"), spec=PodSpec(volumes=volumes))
    assert claim_names(pod) == ["c1", "p-scratch"]
    assert own_claim_names(pod) == {"p-scratch"}


@pytest.mark.parametrize(
    ("owners", "made"),
    [
        (None, False),
        ([], False),
        ([{"kind": "Pod", "uid": "u", "controller": True}], True),
        ([{"kind": "Pod", "uid": "of one before", "controller": True}], False),
        ([{"kind": "Pod", "uid": "u"}], False),
    ],
)
def test_a_claim_of_an_ephemeral_volume_is_controlled_by_its_pod(owners, made):
    assert is_made_for({"metadata": {"name": "p-scratch", "ownerReferences": owners}}, "u") is made


@pytest.mark.parametrize(
    ("meta", "spec", "phase", "free"),
    [
        ({}, {}, "Available", True),
        ({}, {}, None, True),
        ({}, {}, "Released", False),
        ({}, {}, "Failed", False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "Available", False),
        ({}, {"claimRef": {"namespace": "ns", "name": "c"}}, "Available", True),
        ({}, {"claimRef": {"namespace": "ns", "name": "c", "uid": "u"}}, "Bound", True),
        ({}, {"claimRef": {"namespace": "ns", "name": "c", "uid": "old"}}, "Released", False),
        ({}, {"claimRef": {"namespace": "ns", "name": "other"}}, "Bound", False),
        ({}, {"claimRef": {"namespace": "elsewhere", "name": "c"}}, "Bound", False),
    ],
)
def test_a_volume_is_to_be_had_if_it_is_free_or_kept_for_the_claim(meta, spec, phase, free):
    volume = {"metadata": {"name": "v", **meta}, "spec": spec, "status": {"phase": phase}}
    assert is_to_be_had(volume, CLAIM) is free


@pytest.mark.parametrize(
    ("annotations", "node"), [({}, ""), (None, ""), ({"other": "n1"}, ""), ({SELECTED_NODE: "n1"}, "n1")]
)
def test_a_claim_says_for_which_node_its_volume_is_made(annotations, node):
    assert selected_node({"metadata": {"name": "c", "annotations": annotations}}) == node


BLOCK = {"volumeMode": "Block"}
TIER_A = {"selector": {"matchLabels": {"tier": "a"}}}
NOT_A = {"selector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}}


def asking(size):
    return {"resources": {"requests": {"storage": size}}}


@pytest.mark.parametrize(
    ("volume", "claim", "fits"),
    [
        ({}, {}, True),
        ({"capacity": {"storage": "20Gi"}}, asking("10Gi"), True),
        ({"capacity": {"storage": "10Gi"}}, asking("10240Mi"), True),
        ({"capacity": {"storage": "9Gi"}}, asking("10Gi"), False),
        ({}, asking("1"), False),
        ({"storageClassName": "fast"}, {"storageClassName": "fast"}, True),
        ({"storageClassName": "fast"}, {"storageClassName": "slow"}, False),
        ({"storageClassName": "fast"}, {}, False),
        ({"storageClassName": ""}, {"storageClassName": None}, True),
        ({"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}, {"accessModes": ["ReadWriteMany"]}, True),
        ({"accessModes": ["ReadWriteOnce"]}, {"accessModes": ["ReadWriteMany"]}, False),
        (BLOCK, {}, False),
        (BLOCK, BLOCK, True),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({}, TIER_A, False),
        ({}, NOT_A, True),
        ({}, {"selector": {}}, True),
    ],
)
def test_a_volume_suits_a_claim_if_it_has_all_that_is_asked(volume, claim, fits):
    assert suits(volume, {"tier": "b"}, claim) is fits


def test_sizes_are_in_bytes():
    assert storage_bytes({"storage": "1Ki"}) == 1024
    assert storage_bytes({"cpu": "1"}) == storage_bytes(None) == 0
