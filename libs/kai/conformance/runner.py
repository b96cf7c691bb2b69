"""A folder of scenarios and fair-share divisions."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
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

    A file that is no list of scenarios is one failed result, named as the file.

    Raises:
        FileNotFoundError: the folder holds no scenario.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.json; give the folder of the scenarios")
    for file in files:
        try:
            entries = msgspec.json.decode(file.read_bytes(), type=list[dict[str, Any]])
            chosen = [entry for entry in entries if str(entry["id"]).startswith(only)]
        except (msgspec.DecodeError, UnicodeDecodeError, OSError, KeyError) as error:
            yield Result(file.name, (f"is no list of scenarios with an id each: {error!r}",))
            continue
        for entry in chosen:
            yield run_division(entry) if file.name == _DIVISIONS else run_scenario(entry)


def run_scenario(scenario: dict[str, Any]) -> Result:
    """Run one scenario; one that raises has failed."""
    return _result(scenario, lambda: ScenarioRun(scenario).run())


def run_division(division: dict[str, Any]) -> Result:
    """Run the calls of one fair-share division; one that raises has failed."""
    return _result(
        division,
        lambda: [
            f"call {number}: {line}"
            for number, call in enumerate(division["calls"])
            for line in run_call(call)
        ],
    )


def _result(entry: dict[str, Any], run: Callable[[], list[str]]) -> Result:
    try:
        differences = run()
    except Exception as error:  # noqa: BLE001 (one scenario must not keep all others from being judged)
        differences = [_raised(error)]
    return Result(entry["id"], tuple(differences))


def _raised(error: Exception) -> str:
    """What was raised, and in which line."""
    (*_, last) = traceback.extract_tb(error.__traceback__)
    what = traceback.format_exception_only(error)[-1].strip()
    return f"raised {what} ({Path(last.filename).name}, line {last.lineno}, in {last.name})"
