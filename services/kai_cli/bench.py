"""``kai bench``: run the benchmark clusters and check what they decide."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from kai.bench.clusters import benchmarks
from kai.bench.run import Measurement, exponents, machine, measure
from kai_cli.files import to_write, write
from kai_cli.output import Column, emit, table

_NUMBERS = ("WARM MS", "MIN", "MAX", "COLD MS", "EVENTS MS", "BINDS", "EVICTIONS", "PIPELINES")
_COLUMNS = (Column("BENCHMARK"), *(Column(title, number=True) for title in _NUMBERS), Column("CORRECT"))


def bench(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Names, or parts of them.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="Warm runs of each.")] = 5,
    json: Annotated[
        Path | None,
        typer.Option("--json", callback=to_write, metavar="FILE", help="Write the results there."),
    ] = None,
) -> None:
    """Measure scheduling cycles in milliseconds, warm and cold; each cluster checks its decisions."""
    known = benchmarks()
    chosen = [each for each in known if not name or any(part in each for part in name)]
    if not chosen:
        raise typer.BadParameter(f"no benchmark has {' or '.join(name or ())} in its name", param_hint="NAME")
    results: list[Measurement] = []
    for each in chosen:
        found = measure(known[each], runs=runs)
        results.append(found)
        for problem in found.problems:
            typer.echo(f"{each}: {problem}", err=True)
    emit(_table(results))
    for family, exponent in exponents([known[each] for each in chosen], results).items():
        typer.echo(f"{family}: time grows with the {exponent:.2f}th power of its size")
    if json is not None:
        report = {"machine": machine(), "results": [asdict(found) for found in results]}
        write(json, msgspec.json.format(msgspec.json.encode(report), indent=2))
    if not all(found.correct for found in results):
        raise typer.Exit(1)


def _table(results: list[Measurement]) -> Table:
    rows = []
    for each in results:
        times = (each.warm_ms, each.min_ms, each.max_ms, each.cold_ms, each.events_ms)
        counts = (each.binds, each.evictions, each.pipelines)
        verdict = "yes" if each.correct else "WRONG"
        rows.append([each.name, *(f"{value:.2f}" for value in times), *map(str, counts), verdict])
    return table(_COLUMNS, rows)
