"""``kai simulate``: fair shares of queues at one moment, and over time; no cluster needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml

from kai.model import documents
from kai.model.decisions import ResourceVector
from kai.simulate import fair_share as division
from kai.simulate import summary
from kai.simulate.fair_share import Question
from kai.simulate.reading import InvalidInput
from kai.simulate.scenario import Scenario
from kai.simulate.time_based import Course, simulate
from kai_cli import output
from kai_cli.files import text_of, to_draw
from kai_cli.output import Column

app = typer.Typer(no_args_is_help=True, help="Simulate fair shares: at one moment, or over time.")
T = TypeVar("T")


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]


@app.command()
def fair_share(
    file: Annotated[
        Path | None,
        typer.Option("-f", "--filename", metavar="FILE", help="JSON or YAML; - for standard input."),
    ] = None,
    *,
    form: OutputOption = Output.TABLE,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer POST /simulate there instead, until interrupted.")
    ] = "",
    cors: Annotated[
        bool, typer.Option("--cors", help="With --listen: let pages of other sites ask, too.")
    ] = False,
) -> None:
    """Divide resources among queues, as a scheduling cycle would.

    FILE is the input of the original's fairshare-simulator: totalResource and queues. Beside it, queues may
    have parents in the file, and past use counts where kValue, and usage of a resource, are given.
    """
    if listen and file is not None:
        raise typer.BadParameter("what is asked comes over --listen; leave the file out", param_hint="-f")
    if cors and not listen:
        raise typer.BadParameter("nobody asks without --listen", param_hint="--cors")
    if listen:
        _serve(listen, cors=cors)
        return
    if file is None:
        raise typer.BadParameter("name a file, or an address to --listen on", param_hint="-f")
    question = _read(file, Question.read)
    for note in question.notes:
        output.say(f"note: {note}", err=True)
    shares = division.divide(question)
    if form is Output.JSON:
        output.document(_by_name(shares), output.Format.JSON)
    elif form is Output.CSV:
        typer.echo("QueueID,GPU,CPU,Memory")
        for queue, (cpu, memory, gpu) in shares.items():
            typer.echo(f"{queue},{gpu:g},{cpu:.12g},{memory:.15g}")
    else:
        _print_shares(question, shares)


@app.command()
def time_based(
    file: Annotated[
        Path, typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON; - for standard input.")
    ],
    *,
    form: OutputOption = Output.TABLE,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", callback=to_draw, help="Draw what queues held over time into this file (.png or .svg)."
        ),
    ] = None,
) -> None:
    """Run cycle after cycle of the scheduler, each with the past use of those before it.

    FILE is the input of the original's time-based-fairshare-simulator: queues, jobs, nodes, cycles,
    windowSize, halfLifePeriod and kValue. A cycle lasts a second. The table sums up; csv and json have every
    cycle.
    """
    course = simulate(_read(file, Scenario.read))
    if form is Output.JSON:
        output.document(summary.as_json(course), output.Format.JSON)
    elif form is Output.CSV:
        typer.echo(summary.as_csv(course), nl=False)
    else:
        _print_course(course)
    if plot is not None:
        try:
            summary.draw(course, plot)
        except (summary.PlotUnavailable, ValueError, OSError) as error:
            raise output.fail(f"{plot}: {error}") from error


def _read(file: Path, read: Callable[[Any], T]) -> T:
    try:
        return read(documents.load(text_of(file)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, InvalidInput) as error:
        raise output.fail(f"{file}: {error}") from error


def _by_name(shares: dict[str, ResourceVector]) -> dict[str, dict[str, float]]:
    return {queue: {"gpu": gpu, "cpu": cpu, "memory": memory} for queue, (cpu, memory, gpu) in shares.items()}


def _print_shares(question: Question, shares: dict[str, ResourceVector]) -> None:
    columns = [Column("QUEUE"), Column("PARENT"), Column("PRIORITY", number=True)]
    columns += [Column(name, number=True) for name in ("GPU", "CPU", "MEMORY")]
    rows = []
    for queue in question.queues:
        cpu, memory, gpu = shares[queue.uid]
        rows.append(
            [queue.uid, queue.parent or "-", str(queue.priority), f"{gpu:g}", f"{cpu:.12g}", f"{memory:.15g}"]
        )
    output.emit(output.table(columns, rows))


def _print_course(course: Course) -> None:
    columns = [Column("QUEUE"), *(Column(name, number=True) for name in ("GPUS", "FAIR SHARE", "OF CLUSTER"))]
    columns += [Column("TURNS", number=True), Column("LONGEST WITHOUT", number=True)]
    rows = [
        [
            each.queue,
            f"{each.allocated:.2f}",
            f"{each.fair_share:.2f}",
            f"{100 * each.part:.1f} %",
            str(each.turns),
            str(each.longest_without),
        ]
        for each in summary.summarize(course)
    ]
    output.emit(output.table(columns, rows))
    typer.echo(f"means over {course.scenario.cycles} cycles, {course.scenario.gpus} GPUs")


# --- over HTTP ------------------------------------------------------------------------------------
def _serve(address: str, *, cors: bool) -> None:
    from kai_cli.simulate_server import ListenFailed, serve

    try:
        asyncio.run(serve(address, cors=cors, say=typer.echo))
    except KeyboardInterrupt:
        return
    except ListenFailed as error:
        raise output.fail(str(error)) from error
