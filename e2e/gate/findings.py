"""What the runs of a stage have found, as their reports say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Whoever reads only the last lines of a gate is to see them all.
_SHOWN, _LETTERS = 20, 240


@dataclass(frozen=True, slots=True)
class Found:
    """A finding. ``broken``: what must always hold did not; no machine is slow enough to explain it."""

    text: str
    broken: bool


def forget(reports: Sequence[str]) -> None:
    """Delete the reports of earlier runs."""
    for report in reports:
        Path(report).unlink(missing_ok=True)


def read(reports: Sequence[str]) -> list[Found]:
    """What is in the reports that there are; one that cannot be read is a finding."""
    return [found for report in reports if Path(report).exists() for found in _of_report(report)]


def lines(found: Sequence[Found]) -> list[str]:
    """For whoever reads them: what is broken first, and not without end."""
    ordered = sorted(found, key=lambda one: not one.broken)
    shown = [f"{'BROKEN' if one.broken else 'of time'}: {one.text}" for one in ordered[:_SHOWN]]
    more = len(ordered) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _of_report(report: str) -> list[Found]:
    try:
        found = json.loads(Path(report).read_text())["findings"]
        return [_finding(report, one) for one in found]
    except (OSError, ValueError, LookupError, TypeError) as error:
        return [Found(f"{report} cannot be read: {error}", broken=False)]


def _finding(report: str, said: dict[str, Any]) -> Found:
    text = f"{Path(report).parent}: {said['rule']}: {said['subject']}: {said['message']}"
    line = " ".join(text.split())
    return Found(line if len(line) <= _LETTERS else f"{line[:_LETTERS]}…", broken=bool(said["broken"]))
