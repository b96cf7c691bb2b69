"""What ``kai history`` and ``kai report`` have in common: spans of time, and how answers are printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from kai.model import duration
from kai.model.visible import visible
from kai_cli import output
from kai_cli.views.history import Shown, as_csv


class Form(StrEnum):
    """What ``-o`` accepts."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


FormOption = Annotated[Form, typer.Option("-o", "--output", help="How to print the answer.")]
SinceOption = Annotated[
    str, typer.Option(metavar="TIME", help="From here on: 2h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z.")
]
UntilOption = Annotated[str, typer.Option(metavar="TIME", help="Before that; no end if left out.")]


def moment(text: str, *, option: str, now: float) -> float:
    """Unix seconds of a time that is so long ago, or said in full; UTC where it names no zone."""
    try:
        return now - duration.parse(text)
    except duration.InvalidDuration:
        pass
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write 2h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z", param_hint=option
        ) from None
    return (said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp()


def span(since: str, until: str) -> tuple[float, float | None]:
    """Both ends of the time that is asked about; without ``until`` it has no second one."""
    now = time.time()
    first = moment(since, option="--since", now=now)
    last = moment(until, option="--until", now=now) if until else None
    if first >= (now if last is None else last):
        raise typer.BadParameter("the time that is asked about ends before it begins", param_hint="--since")
    return first, last


def show(
    shown: Sequence[Shown],
    rows: Sequence[Any],
    *,
    keys: Sequence[str],
    documents: Sequence[Mapping[str, Any]],
    form: Form,
) -> None:
    """Print rows as a table, or what they say in full."""
    if form is Form.JSON:
        output.document(list(documents), output.Format.JSON)
    elif form is Form.CSV:
        text = as_csv(keys, documents)
        typer.echo(visible(text, lines=True) if sys.stdout.isatty() else text, nl=False)
    else:
        cells = [[each.cell(row) for each in shown] for row in rows]
        output.emit(output.table([each.column for each in shown], cells))
