"""A course in figures, one line for each queue, and as a drawing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from kai.model.arrays import Floats
from kai.simulate.time_based import Course

#: The first four are those of the original.
COLUMNS: Final = ("Time", "QueueID", "Allocation", "FairShare", "Usage")


class PlotUnavailable(RuntimeError):
    """The library that draws is not installed."""

    def __init__(self) -> None:
        super().__init__("a drawing needs matplotlib; install it with pip install 'kai-scheduler[plot]'")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """One queue over all cycles. GPUs are means; ``turns`` counts how often it began to hold any."""

    queue: str
    allocated: float
    fair_share: float
    #: Part of the cluster's GPUs, 0 to 1.
    part: float
    turns: int
    #: The longest time in a row, in cycles, in which it held nothing.
    longest_without: int


def summarize(course: Course) -> list[QueueSummary]:
    """All queues, in the order of the course."""
    gpus = course.scenario.gpus
    return [
        QueueSummary(
            queue=name,
            allocated=float(course.allocated[:, place].mean()),
            fair_share=float(course.fair_share[:, place].mean()),
            part=float(course.allocated[:, place].mean()) / gpus if gpus else 0.0,
            turns=_turns(course.allocated[:, place]),
            longest_without=_longest_without(course.allocated[:, place]),
        )
        for place, name in enumerate(course.names)
    ]


def _turns(held: Floats) -> int:
    some = np.r_[False, held > 0]
    return int(np.count_nonzero(some[1:] & ~some[:-1]))


def _longest_without(held: Floats) -> int:
    longest = current = 0
    for some in (held > 0).tolist():
        current = 0 if some else current + 1
        longest = max(longest, current)
    return longest


def rows(course: Course) -> Iterator[tuple[int, str, float, float, float]]:
    """Every queue in every cycle, as in :data:`COLUMNS`."""
    for cycle in range(course.scenario.cycles):
        for place, name in enumerate(course.names):
            yield (
                cycle,
                name,
                float(course.allocated[cycle, place]),
                float(course.fair_share[cycle, place]),
                float(course.usage[cycle, place]),
            )


def as_csv(course: Course) -> str:
    """Every queue in every cycle, with a line of headings; numbers have six decimals."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cycle, name, *numbers in rows(course):
        writer.writerow([cycle, name, *(f"{number:.6f}" for number in numbers)])
    return text.getvalue()


def as_json(course: Course) -> dict[str, Any]:
    """The summary of each queue, and its series over the cycles."""
    return {
        "cycles": course.scenario.cycles,
        "gpus": course.scenario.gpus,
        "queues": [
            {
                "queue": each.queue,
                "meanAllocation": round(each.allocated, 6),
                "meanFairShare": round(each.fair_share, 6),
                "partOfCluster": round(each.part, 6),
                "turns": each.turns,
                "longestWithout": each.longest_without,
                "allocation": _rounded(course.allocated[:, place]),
                "fairShare": _rounded(course.fair_share[:, place]),
                "usage": _rounded(course.usage[:, place]),
            }
            for place, each in enumerate(summarize(course))
        ],
    }


def _rounded(series: Floats) -> list[float]:
    return [round(value, 6) for value in series.tolist()]


def draw(course: Course, path: Path) -> None:
    """Draw what queues held (lines) and their fair share (dotted); the suffix of the path is the format.

    Parents are left out: they hold what their children hold.

    Raises:
        PlotUnavailable: matplotlib is missing.
        ValueError: the format is not known.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotUnavailable from None
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.add_subplot()
    parents = {team.parent for team in course.scenario.teams}
    cycles = np.arange(course.scenario.cycles)
    for place, name in enumerate(course.names):
        if name not in parents:
            (line,) = axes.step(cycles, course.allocated[:, place], where="post", label=name)
            axes.step(
                cycles, course.fair_share[:, place], where="post", linestyle=":", color=line.get_color()
            )
    axes.set(xlabel="cycle", ylabel="GPUs held; dotted: fair share", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)
