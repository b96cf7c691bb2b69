"""Runs of strategies over several seeds, as figures and as a curve."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from kai.model.arrays import Floats
from kai.pack.simulation import Packing, pack
from kai.pack.trace import Trace

#: Demand at which the curve is read, in percent of the cluster's GPUs.
CURVE: Final = tuple(range(0, 131, 2))


class PlotUnavailable(RuntimeError):
    """The library that draws is not installed."""

    def __init__(self) -> None:
        super().__init__("a curve needs matplotlib; install it with pip install 'kai-scheduler[plot]'")


@dataclass(frozen=True, slots=True)
class Result:
    """One strategy over all seeds."""

    strategy: str
    packings: tuple[Packing, ...]
    seconds: float

    def per_seed(self, percent: float = 100.0) -> Floats:
        """Allocated GPUs in percent of the cluster at this demand, by seed."""
        return np.array([packing.at(percent) for packing in self.packings])

    @property
    def microseconds_per_pod(self) -> float:
        """Time for one decision."""
        return 1e6 * self.seconds / sum(len(packing.demanded) for packing in self.packings)

    def as_json(self) -> dict[str, Any]:
        """Mean and seeds at full demand, and the curve of means."""
        return {
            "strategy": self.strategy,
            "allocated_percent_at_100": round(float(self.per_seed().mean()), 4),
            "per_seed": [round(float(each), 4) for each in self.per_seed()],
            "microseconds_per_pod": round(self.microseconds_per_pod, 1),
            "curve": [[percent, round(float(self.per_seed(percent).mean()), 4)] for percent in CURVE],
        }


def run(trace: Trace, strategy: str, seeds: Iterable[int]) -> Result:
    """Pack the trace once for each seed."""
    begin = time.perf_counter()
    packings = tuple(pack(trace, strategy, seed) for seed in seeds)
    return Result(strategy, packings, time.perf_counter() - begin)


def draw(results: list[Result], path: Path) -> None:
    """Draw allocation over demand, one line for each strategy; the suffix of the path is the format.

    Raises:
        PlotUnavailable: matplotlib is missing.
        ValueError: the format is not known.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotUnavailable from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(CURVE, np.minimum(CURVE, 100), color="0.75", linewidth=1, label="everything that was asked for")
    for result in results:
        seeds = np.array([result.per_seed(percent) for percent in CURVE])
        mean = float(result.per_seed().mean())
        (line,) = axes.plot(CURVE, seeds.mean(axis=1), label=f"{result.strategy} ({mean:.2f} % at 100 %)")
        axes.fill_between(
            CURVE, seeds.min(axis=1), seeds.max(axis=1), color=line.get_color(), alpha=0.2, lw=0
        )
    axes.set(xlim=(60, CURVE[-1]), ylim=(60, 101), xlabel="GPUs asked for, % of the cluster")
    axes.set_ylabel("GPUs allocated, % of the cluster")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)
