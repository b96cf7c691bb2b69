"""``kai replay``: one cycle over a snapshot file, with nothing done about its decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kai.engine import Engine
from kai.replay import archive, scene
from kai.snapshot.times import rfc3339
from kai_cli.output import console, fail
from kai_cli.views import cycle


class Output(StrEnum):
    """How decisions are printed."""

    TABLE = "table"
    JSON = "json"


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Snapshot file: a zip with snapshot.json, or the JSON.")
    ],
    *,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
    now: Annotated[
        str, typer.Option("--now", metavar="TIME", help="Decide as at this time (RFC 3339), not the file's.")
    ] = "",
) -> None:
    """Run one scheduling cycle over a snapshot file and print decisions, reasons and timings."""
    try:
        found = scene.set_up(archive.read(file.read_bytes()), now=_time(now))
    except OSError as error:
        raise fail(f"{file}: {error.strerror}") from error
    except archive.ArchiveError as error:
        raise fail(f"{file}: {error}") from error
    result = Engine(found.config).run(found.state, found.now)
    if output is Output.JSON:
        document = {"now": rfc3339(found.now), "notes": list(found.notes), **cycle.document(result)}
        typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
        return
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    for part in cycle.tables(result):
        console().print(part, "", markup=False)
    typer.echo(f"as at {rfc3339(found.now)}: {cycle.summary(result)}")


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
