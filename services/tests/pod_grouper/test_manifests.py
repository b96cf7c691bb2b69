"""Every kind of workload, as its users write it, and the pod groups it becomes.

The cases are the files under ``data/``, one for each family of kinds. A case has ``objects``, perhaps
``options``, and what is expected: ``groups`` (of each its name and whatever of owner, spec, labels and
annotations matters; parts of ``spec`` must be equal as a whole), ``pods`` (``group`` or ``group/subgroup`` by
pod, empty if left alone), ``warnings`` (a piece of each) and ``notes`` (pieces of some).
"""

from pathlib import Path

import pytest
import yaml

from kai.grouping.offline.manifest import read_manifest
from kai.grouping.offline.preview import preview
from kai.grouping.options import GroupingOptions
from kai.grouping.rules import known_kinds
from kai.model.documents import load_written

DATA = Path(__file__).parent / "data"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted(DATA.glob("*.yaml"))
    for case in load_written(path.read_text())["cases"]
]


@pytest.mark.parametrize("case", CASES)
async def test_a_manifest_becomes_the_pod_groups_that_its_rules_say(case):
    manifest = yaml.safe_dump_all(case["objects"], sort_keys=False)
    options = GroupingOptions(**case.get("options", {}))

    found = await preview(manifest, options, defaults=case.get("defaults", ""))

    assert len(found.warnings) == len(case.get("warnings", [])), found.warnings
    for piece, warning in zip(case.get("warnings", []), found.warnings, strict=True):
        assert piece in warning
    for piece in case.get("notes", []):
        assert any(piece in note for note in found.notes), found.notes
    assert "null" not in yaml.safe_dump(list(found.pod_groups))
    assert {pod.name: _membership(pod) for pod in found.pods} == case["pods"]
    assert [body["metadata"]["name"] for body in found.pod_groups] == [g["name"] for g in case["groups"]]
    for body, expected in zip(found.pod_groups, case["groups"], strict=True):
        _check_group(body, expected)


def test_every_declared_kind_has_a_case():
    seen = {
        (body["apiVersion"].rpartition("/")[0], body["kind"])
        for path in DATA.glob("*.yaml")
        for case in load_written(path.read_text())["cases"]
        for body in read_manifest(yaml.safe_dump_all(case["objects"])).objects
    }
    declared = {(kind.api_version.rpartition("/")[0], kind.kind) for kind in known_kinds().values()}
    assert declared - seen == set()


def _membership(pod):
    return f"{pod.pod_group}/{pod.sub_group}" if pod.sub_group else pod.pod_group


def _check_group(body, expected):
    assert body["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert ("minMember" in body["spec"]) != ("minSubGroup" in body["spec"])
    for key, value in expected.get("spec", {}).items():
        assert body["spec"].get(key) == value, key
    if "tree" in expected:
        assert _tree(body["spec"]) == expected["tree"].split()
    if "owner" in expected:
        [owner] = body["metadata"]["ownerReferences"]
        assert (
            " ".join([owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]]) == expected["owner"]
        )
    for part in ("labels", "annotations"):
        found = body["metadata"].get(part) or {}
        for key, value in expected.get(part, {}).items():
            assert found.get(key) == value, key


def _tree(spec):
    """``needed``, then each subgroup as ``[parent/]name:needed``; inner ones with ``>`` before the number."""
    parts = [
        f"{part['parent'] + '/' if 'parent' in part else ''}{part['name']}:{_needed(part)}"
        for part in spec["subGroups"]
    ]
    return [_needed(spec), *parts]


def _needed(part):
    return f">{part['minSubGroup']}" if "minSubGroup" in part else str(part["minMember"])
