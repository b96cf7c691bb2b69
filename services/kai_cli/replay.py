"""``kai replay``: cycles over a snapshot file or as recorded, with nothing done about their decisions."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.status import Status

from kai.engine import Engine
from kai.history.recordings import Wanted
from kai.model import names, release
from kai.model.decisions import CycleResult
from kai.replay import archive, scene
from kai.replay.cycles import Again, RecordingError
from kai.snapshot.times import rfc3339
from kai_cli import recorded
from kai_cli.connection import Target, ask
from kai_cli.output import emit, fail, say, table
from kai_cli.past import span
from kai_cli.views import cycle as view

Answer = TypeVar("Answer")
#: No store has higher numbers of cycles and terms.
_LAST: Final = 2**63 - 1


class Output(StrEnum):
    """How decisions are printed."""

    TABLE = "table"
    JSON = "json"


def replay(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Snapshot file: a zip with snapshot.json, or the JSON."),
    ] = None,
    *,
    cycle: Annotated[
        int,
        typer.Option(
            "--cycle", min=0, max=_LAST, help="Instead of a file: this one of `kai history cycles`."
        ),
    ] = 0,
    term: Annotated[
        int,
        typer.Option(
            "--term", min=0, max=_LAST, help="Of --cycle: the scheduler's term; the last that has it."
        ),
    ] = 0,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="Instead of a file: all cycles since, say 1h."),
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="With --since: before that.")] = "",
    shard: Annotated[
        str, typer.Option("--shard", help="Of --cycle and --since: the scheduler's shard [default].")
    ] = "",
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
    now: Annotated[
        str,
        typer.Option("--now", metavar="TIME", help="Decide a file as at this time (RFC 3339)."),
    ] = "",
) -> None:
    """Run one scheduling cycle over a snapshot file and print decisions, reasons and timings.

    Or decide cycles again that insight recorded, and say whether they come out as they did: one with --cycle,
    all of a time with --since. Ends with 1 where they do not.
    """
    if sum((file is not None, bool(cycle), bool(since))) != 1:
        raise typer.BadParameter("give one of FILE, --cycle and --since")
    for given, option, wanted_for, there in (
        (now, "--now", "a FILE", file is not None),
        (term, "--term", "--cycle", bool(cycle)),
        (until, "--until", "--since", bool(since)),
        (shard, "--shard", "--cycle and --since", file is None),
    ):
        if given and not there:
            raise typer.BadParameter(f"is for {wanted_for}", param_hint=option)
    shard = shard or names.DEFAULT_SHARD
    if file is not None:
        _of_file(file, output=output, now=_time(now))
        return
    target = Target.of(context)
    if cycle:
        _of_cycle(target, Wanted(shard=shard, version=cycle, epoch=term), output=output)
        return
    first, last = span(since, until)
    wanted = Wanted(shard=shard, since=first, until=math.inf if last is None else last)
    _of_time(target, wanted, output=output)


def _of_file(file: Path, *, output: Output, now: float | None) -> None:
    try:
        found = scene.set_up(archive.read(file.read_bytes()), now=now)
    except OSError as error:
        raise fail(f"{file}: {error.strerror}") from error
    except archive.ArchiveError as error:
        raise fail(f"{file}: {error}") from error
    result = Engine(found.config).run(found.state, found.now)
    if output is Output.JSON:
        _print({"now": rfc3339(found.now), "notes": list(found.notes), **view.document(result)})
        return
    for note in found.notes:
        say(f"note: {note}", err=True)
    _show(result)
    typer.echo(f"as at {rfc3339(found.now)}: {view.summary(result)}")


def _of_cycle(target: Target, wanted: Wanted, *, output: Output) -> None:
    async def question() -> tuple[Again | None, int, int]:
        course, again, epoch, differing = recorded.Course(), None, 0, 0
        async for entry in recorded.entries(target, wanted):
            again, epoch = course.take(entry), entry.epoch
            if again is not None and not again.same and entry.version != wanted.version:
                differing = entry.version
        return again, epoch, differing

    again, epoch, differing = _asked(question)
    if differing:
        raise fail(f"cycle {differing}, before it, comes out otherwise than it did: look at that one first")
    if again is None:
        raise fail(
            f"cycle {wanted.version} is not recorded: insight keeps what --replay-retention says (2h), and "
            "`kai history cycles` has the numbers"
        )
    record, differences = again.record, list(again.differences())
    if output is Output.JSON:
        where = {"shard": wanted.shard, "term": epoch, "cycle": wanted.version, "now": rfc3339(record.now)}
        _print({**where, "same": again.same, "differences": differences, **view.document(again.result)})
    else:
        _show(again.result)
        came = "as it was decided then" if again.same else "not as it was decided then"
        typer.echo(
            f"cycle {wanted.version} of term {epoch}, as at {rfc3339(record.now)}: "
            f"{view.summary(again.result)}; {came}"
        )
        for line in differences:
            say(line)
    if not again.same:
        raise typer.Exit(1)


def _of_time(target: Target, wanted: Wanted, *, output: Output) -> None:
    async def question() -> list[recorded.Stretch]:
        course = recorded.Course()
        with Status("asking insight", console=Console(stderr=True)) as status:
            async for entry in recorded.entries(target, wanted):
                course.take(entry)
                status.update(f"{rfc3339(entry.at)}: {sum(each.cycles for each in course.stretches)} cycles")
        return course.stretches

    stretches = _asked(question)
    if not stretches:
        raise fail("no cycle of that time is recorded; insight keeps what --replay-retention says (2h)")
    if output is Output.JSON:
        _print([each.document() for each in stretches])
    else:
        emit(table(recorded.COLUMNS, [each.row() for each in stretches]))
        for line in recorded.sums(stretches):
            say(line)
    if any(each.differing is not None for each in stretches):
        raise typer.Exit(1)


def _asked(question: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        return ask(question)
    except RecordingError as error:
        raise fail(
            f"{error}; this kai is {release.version()}, and another release may have recorded it"
        ) from error


def _show(result: CycleResult) -> None:
    for part in view.tables(result):
        emit(part, "")


def _print(document: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _time(text: str) -> float | None:
    if not text:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-01-31T12:00:00Z", param_hint="--now"
        ) from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
