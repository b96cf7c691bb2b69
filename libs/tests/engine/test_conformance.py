"""Recorded behaviour of the original: every scenario and every division."""

from pathlib import Path

import msgspec
import pytest

from kai.conformance.runner import run_division, run_scenario

_FOLDER = Path(__file__).parents[4] / "shared" / "scenarios"
_FILES = sorted(_FOLDER.glob("*.json"))


@pytest.mark.skipif(not _FILES, reason="no recorded scenarios beside this repository (../shared/scenarios)")
@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_every_recorded_scenario_comes_out_as_recorded(file: Path) -> None:
    run = run_division if file.stem == "fairshare" else run_scenario
    results = [run(entry) for entry in msgspec.json.decode(file.read_bytes())]
    assert results
    assert {result.id: result.differences for result in results if not result.passed} == {}
