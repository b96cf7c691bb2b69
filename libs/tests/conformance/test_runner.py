"""A folder of scenarios is judged to its end, whatever becomes of one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kai.conformance.runner import run_folder


def a_scenario(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "mode": "single",
        "now": "2026-01-01T00:00:00Z",
        "session": {},
        "actions": ["allocate"],
        "objects": {"pods": []},
        "initial_state": {"pods": {}, "jobs": {}},
        "expected": {},
        **changes,
    }


def test_a_scenario_that_raises_has_failed_and_the_others_are_run(tmp_path: Path) -> None:
    scenarios = [a_scenario("first"), a_scenario("broken", actions=["conquer"]), a_scenario("last")]
    (tmp_path / "some.json").write_text(json.dumps(scenarios))
    results = {result.id: result for result in run_folder(tmp_path)}
    assert [result.passed for result in results.values()] == [True, False, True]
    (line,) = results["broken"].differences
    assert "raised KeyError: 'conquer' (scenario.py, line " in line


def test_a_division_that_raises_has_failed(tmp_path: Path) -> None:
    (tmp_path / "fairshare.json").write_text(json.dumps([{"id": "division", "calls": [{}]}]))
    (result,) = run_folder(tmp_path)
    assert not result.passed
    assert "raised KeyError: 'function'" in result.differences[0]


@pytest.mark.parametrize("text", ["[", "{}", '["scenario"]', '[{"mode": "single"}]'])
def test_a_file_that_cannot_be_read_has_failed_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json").write_text(json.dumps([a_scenario("good")]))
    bad, good = run_folder(tmp_path)
    assert (bad.id, bad.passed) == ("a.json", False)
    assert (good.id, good.passed) == ("good", True)
