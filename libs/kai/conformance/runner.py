"""A folder of scenarios and fair-share divisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kai.conformance.scenario import ScenarioRun
from kai.engine.fairness.conformance import run_call

_DIVISIONS = "fairshare.json"


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario or division."""

    id: str
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether everything is as expected."""
        return not self.differences


def run_folder(folder: Path, *, only: str = "") -> Iterator[Result]:
    """Run every scenario of a folder in order of files; ``only`` is one id or the beginning of some.

    Raises:
        FileNotFoundError: the folder holds no scenario.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.json; give the folder of the scenarios")
    for file in files:
        for entry in msgspec.json.decode(file.read_bytes()):
            if entry["id"].startswith(only):
                yield run_division(entry) if file.name == _DIVISIONS else run_scenario(entry)


def run_scenario(scenario: dict[str, Any]) -> Result:
    """Run one scenario."""
    return Result(scenario["id"], tuple(ScenarioRun(scenario).run()))


def run_division(division: dict[str, Any]) -> Result:
    """Run the calls of one fair-share division."""
    lines: list[str] = []
    for number, call in enumerate(division["calls"]):
        lines += [f"call {number}: {line}" for line in run_call(call)]
    return Result(division["id"], tuple(lines))
