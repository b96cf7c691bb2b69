"""A key of a Karta definition that is nearly one that counts is no definition without it."""

import copy

import pytest

from kai.grouping.errors import InvalidWorkload
from kai.grouping.karta.definition import parse
from kai.grouping.objects.documents import Document

KIND = {"group": "jobs.example.com", "version": "v1", "kind": "PyFlow"}
OWNER = Document.of_body(
    {"apiVersion": "jobs.example.com/v1", "kind": "PyFlow", "metadata": {"name": "flow", "namespace": "n"}}
)
SPEC = {
    "structureDefinition": {
        "rootComponent": {"name": "pyflow", "kind": KIND, "statusDefinition": {"phaseDefinition": {}}},
        "childComponents": [
            {"name": "worker", "ownerRef": "pyflow", "scaleDefinition": {"replicasPath": ".spec.workers"}}
        ],
        "additionalChildKinds": [],
    },
    "optimizationInstructions": {
        "gangScheduling": {"podGroup": {"name": "all", "subGroups": [{"componentName": "worker"}]}}
    },
}


def a_definition(spec):
    body = {"apiVersion": "run.ai/v1alpha1", "kind": "Karta", "metadata": {"name": "pyflow"}, "spec": spec}
    return parse(Document.of_body(body), OWNER)


def renamed(path, key, to):
    spec = copy.deepcopy(SPEC)
    found = spec
    for step in path:
        found = found[step]
    found[to] = found.pop(key)
    return spec


@pytest.mark.parametrize(
    ("path", "key", "to"),
    [
        (["structureDefinition", "childComponents", 0, "scaleDefinition"], "replicasPath", "replicaPath"),
        (["structureDefinition", "childComponents", 0], "scaleDefinition", "scaleDefintion"),
        (["optimizationInstructions", "gangScheduling", "podGroup"], "subGroups", "subgroups"),
    ],
)
def test_it_is_named_with_the_key_that_it_nearly_is(path, key, to):
    with pytest.raises(InvalidWorkload) as caught:
        a_definition(renamed(path, key, to))
    assert f"{to}'; did you mean {key!r}?" in str(caught.value)


def test_keys_that_others_read_are_let_be():
    spec = copy.deepcopy(SPEC)
    spec["structureDefinition"]["childComponents"][0]["scaleDefinition"]["maxReplicasPath"] = ".spec.most"
    spec["structureDefinition"]["childComponents"][0]["podSelector"] = {"replicaSelector": {"keyPath": ".x"}}
    spec["somethingNew"] = True
    assert a_definition(spec).gang.pod_group.name == "all"
