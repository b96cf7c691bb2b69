"""docs/pod-spec.md has every field that a pod's specification can have, and names tests that are there."""

import json
from pathlib import Path

from kai_local.apiserver.schemas.schema import published

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = published() / "podspec-v1.json"


def rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "pod-spec.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_every_field_of_the_specification_has_a_row() -> None:
    fields = set(json.loads(SCHEMA.read_text())["properties"])
    named = [row[0].strip("`") for row in rows()]
    assert sorted(named) == sorted(fields)


def test_every_field_that_is_heeded_by_us_names_a_test_that_is_there() -> None:
    ours = ("scheduler", "pod-grouper", "admission", "binder", "all")
    for field, heeded, _, test in rows():
        if any(each in heeded for each in ours):
            path = test.strip("`")
            assert path, f"{field} names no test"
            assert (Path(__file__).parent / path).exists() or (ROOT / path).exists(), path
