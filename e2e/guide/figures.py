"""What the guide measures while it is played: figures beside what is wanted, on a machine of this load."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from kai_local.processes.slowness import cores


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured, in ``unit``, and the ``most`` that is wanted on a quiet machine, if anything is.

    ``load``: of the machine when it was measured, in processes that run or wait for a core.
    """

    what: str
    value: float
    unit: str
    most: float | None
    load: float


def measured(what: str, value: float, unit: str, *, most: float | None = None) -> Figure:
    """A figure of this moment."""
    return Figure(what, value, unit, most, os.getloadavg()[0])


def table(figures: Sequence[Figure]) -> Table:
    """All of them; nothing fails by them, as they depend on who else uses the machine."""
    drawn = Table("what", "seen", "wanted", "", "load", title=f"measured, on {cores():g} cores")
    for each in figures:
        wanted = "" if each.most is None else f"under {each.most:g} {each.unit}"
        holds = "" if each.most is None else "yes" if each.value < each.most else "NO"
        drawn.add_row(each.what, f"{each.value:.0f} {each.unit}", wanted, holds, f"{each.load:.1f}")
    return drawn


def show(figures: Sequence[Figure]) -> None:
    """Print them."""
    Console(width=110).print(table(figures))
