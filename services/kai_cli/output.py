"""One way to print: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import measure_renderables
from rich.table import Table

from kai.model.visible import visible

#: Columns of a screen that has no end.
_UNBOUNDED = 10_000


class Format(StrEnum):
    """What ``-o`` accepts."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ListFormat(StrEnum):
    """What ``-o`` accepts where a table has more columns than are shown at first."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


FormatOption = Annotated[Format, typer.Option("-o", "--output", help="How to print the answer.")]
ListFormatOption = Annotated[
    ListFormat, typer.Option("-o", "--output", help="How to print the answer; wide has all columns.")
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Names and numbers are never cut or folded; prose folds into what room is left."""

    heading: str
    number: bool = False
    #: Shown with ``-o wide`` only.
    wide: bool = False
    prose: bool = False


#: A column of prose gets at least this many characters, even if lines then exceed the terminal.
_PROSE_WIDTH = 24


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    wide: bool = False,
    below: Sequence[Sequence[str]] = (),
) -> Table:
    """A plain table in the manner of kubectl: no frame, headings in capitals.

    A row has a cell for every column, those that only ``wide`` shows included. What stands ``below`` other
    rows has their widths, and no headings. Cells may say whatever somebody wrote into an object.
    """
    rows, below = ([_cells(columns, row) for row in each] for each in (rows, below))
    result = Table(
        box=None, pad_edge=False, header_style="bold", show_header=not below,
        title=title or None, title_justify="left",
    )  # fmt: skip
    shown = [index for index, column in enumerate(columns) if wide or not column.wide]
    for index in shown:
        column = columns[index]
        longest = max(map(cell_len, (column.heading, *(row[index] for row in (*rows, *below)))))
        result.add_column(
            column.heading,
            justify="right" if column.number else "left",
            no_wrap=not column.prose,
            min_width=min(longest, _PROSE_WIDTH) if column.prose else longest,
        )
    for row in rows:
        result.add_row(*(row[index] for index in shown))
    return result


def _cells(columns: Sequence[Column], row: Sequence[str]) -> list[str]:
    return [visible(cell, lines=column.prose) for column, cell in zip(columns, row, strict=True)]


def console() -> Console:
    """Standard output; where it is no terminal lines have no end, so that nothing is cut for a program.

    It takes no word for markup or for an emoji's name: most are those of whoever made an object.
    """
    terminal = sys.stdout.isatty()
    return Console(
        width=None if terminal else _UNBOUNDED,
        color_system="auto" if terminal else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def emit(*parts: RenderableType, screen: Console | None = None) -> None:
    """Print for people. What must not fold and is longer than the terminal is left to it, as kubectl does."""
    screen = screen or console()
    options = screen.options.update(width=_UNBOUNDED, markup=False)
    needed = [
        measure_renderables(screen, options, [part]).minimum for part in parts if not isinstance(part, str)
    ]
    screen.width = max(screen.width, *needed, 1)
    with screen.capture() as captured:
        for part in parts:
            shown = visible(part, lines=True) if isinstance(part, str) else part
            screen.print(shown, markup=False, highlight=False)
    text = captured.get()
    if not screen.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    screen.file.write(text)
    screen.file.flush()


def document(value: Any, form: Format | ListFormat) -> None:
    """Print a value as JSON or YAML."""
    if form == Format.JSON:
        import json

        typer.echo(json.dumps(value, indent=2))
    else:
        import yaml

        typer.echo(yaml.safe_dump(value, sort_keys=False), nl=False)


def say(message: str, *, err: bool = False) -> None:
    """Print a sentence, in which there may be what somebody wrote into an object."""
    typer.echo(visible(message, lines=True), err=err)


def fail(message: str, *, status: int = 1) -> typer.Exit:
    """Say what went wrong on standard error; raise the result."""
    say(f"kai: {message}", err=True)
    return typer.Exit(status)
