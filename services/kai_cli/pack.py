"""``kai pack``: how densely placement strategies pack a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kai.pack import report, strategies
from kai.pack.trace import InvalidTrace, bound_to_models, read_trace
from kai_cli import output
from kai_cli.files import to_draw, to_write_or_print, write
from kai_cli.output import Column

_STRATEGIES = "; ".join(f"{name}: {summary}" for name, summary in strategies.NAMES.items())
_SHOWN = (80, 90, 100, 110, 130)


def pack(
    nodes: Annotated[
        Path, typer.Argument(metavar="NODES.csv", help="Columns sn, cpu_milli, memory_mib, gpu, model.")
    ],
    pods: Annotated[
        Path,
        typer.Argument(
            metavar="PODS.csv", help="Columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec."
        ),
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", help=f"May be repeated; all if none is named. {_STRATEGIES}."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each strategy, with seeds from 0 on.")] = 10,
    bound: Annotated[
        float,
        typer.Option(
            "--bound",
            min=0,
            max=1,
            metavar="PART",
            help="Part of the pods with GPUs, 0 to 1, bound to the model of a node that is drawn by GPUs.",
        ),
    ] = 0.0,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            callback=to_write_or_print,
            help="Write the figures to this file, - for standard output.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", callback=to_draw, help="Draw the curve into this file (.png or .svg)."),
    ] = None,
) -> None:
    """Fill a cluster with pods drawn from a trace, and say how much of its GPUs was allocated.

    Pods never leave; arrivals end when they ask for 130 % of the GPUs. The figures are means over the seeds.
    With --json, allocated_percent_at_100 and per_seed are those of the first strategy named (headroom if
    none is).
    """
    chosen = strategy or ["headroom", *(name for name in strategies.NAMES if name != "headroom")]
    for name in chosen:
        if name not in strategies.NAMES:
            raise output.fail(
                f"strategy {name!r} is not known; known are {', '.join(strategies.NAMES)}", status=2
            )
    try:
        trace = read_trace(nodes, pods)
        if bound:
            trace = bound_to_models(trace, bound)
        results = [report.run(trace, name, range(seeds)) for name in chosen]
    except (InvalidTrace, ValueError, OSError) as error:
        raise output.fail(str(error)) from error
    # What took minutes is told first: the rest may fail.
    if json_file != Path("-"):
        _print(results)
    if json_file is not None:
        _write_json(results, json_file)
    if plot is not None:
        try:
            report.draw(results, plot)
        except (report.PlotUnavailable, ValueError, OSError) as error:
            raise output.fail(f"{plot}: {error}") from error


def _write_json(results: list[report.Result], path: Path) -> None:
    first, *_ = (result.as_json() for result in results)
    text = json.dumps({**first, "strategies": [result.as_json() for result in results]}, indent=2)
    if path == Path("-"):
        typer.echo(text)
    else:
        write(path, f"{text}\n".encode())


def _print(results: list[report.Result]) -> None:
    columns = [Column("STRATEGY"), *(Column(f"AT {percent} %", number=True) for percent in _SHOWN)]
    columns += [Column("SD AT 100 %", number=True), Column("µS PER POD", number=True)]
    rows = [
        [
            result.strategy,
            *(f"{result.per_seed(percent).mean():.2f}" for percent in _SHOWN),
            f"{result.per_seed().std():.2f}",
            f"{result.microseconds_per_pod:.0f}",
        ]
        for result in results
    ]
    output.emit(output.table(columns, rows))
