"""Lists as ``kai get`` prints them: once or followed, by name or by a column."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Protocol

import typer

from kai.kube.client import KubeClient
from kai_cli.connection import Target, ask
from kai_cli.output import Column, ListFormat, document, emit, fail, say, table

SortOption = Annotated[
    str,
    typer.Option("--sort-by", metavar="COLUMN", help="By a column, such as AGE; numbers and times by size."),
]
WatchOption = Annotated[
    bool,
    typer.Option("-w", "--watch", help="Go on, and print each row that is new or changes; Ctrl-C ends it."),
]
#: Between two looks of one that watches.
_SECONDS: Final = 2.0
_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_LASTING: Final = re.compile(r"(?:\d+[dhms])+")
_AMOUNT: Final = re.compile(r"-?\d+(?:\.\d+)?")


class Row(Protocol):
    """What can be shown as a row and as a document."""

    @property
    def key(self) -> str:
        """What it is about; two looks at the same have the same."""

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""

    def document(self) -> dict[str, Any]:
        """As JSON; the same for two looks between which nothing changed."""


class Notes:
    """What a list lacks, on standard error: who watches is told it once, until it is known again."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def tell(self, *lacks: str) -> None:
        """All that this look lacks; an empty text is nothing."""
        for text in lacks:
            if text and text not in self._told:
                say(f"kai: {text}", err=True)
        self._told = frozenset(filter(None, lacks))


def listed(
    context: typer.Context,
    columns: Sequence[Column],
    look: Callable[[KubeClient, Target], Awaitable[Sequence[Row]]],
    output: ListFormat,
    *,
    sort_by: str = "",
    watch: bool = False,
    nothing: str = "No resources found.",
) -> None:
    """Print what ``look`` finds, and go on with what changes if somebody watches."""
    target = Target.of(context)
    place = _place(columns, sort_by) if sort_by else None

    async def question() -> None:
        async with target.cluster() as client:
            rows = _sorted(await look(client, target), place)
            _show(columns, rows, output, nothing=nothing)
            while watch:
                seen = {row.key: row.document() for row in rows}
                await asyncio.sleep(_SECONDS)
                rows = _sorted(await look(client, target), place)
                changed = [row for row in rows if seen.get(row.key) != row.document()]
                if changed:
                    _show(columns, changed, output, below=rows if seen else ())

    try:
        ask(question)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _show(
    columns: Sequence[Column],
    rows: Sequence[Row],
    output: ListFormat,
    *,
    nothing: str = "",
    below: Sequence[Row] = (),
) -> None:
    if output in (ListFormat.JSON, ListFormat.YAML):
        document([row.document() for row in rows], output)
    elif not rows:
        typer.echo(nothing, err=True)
    else:
        cells, above = [row.cells() for row in rows], [row.cells() for row in below]
        emit(table(columns, cells, wide=output is ListFormat.WIDE, below=above))


def _place(columns: Sequence[Column], name: str) -> int:
    headings = [column.heading for column in columns]
    if name.upper() not in headings:
        raise fail(f"there is no column {name!r}; there are {', '.join(headings)}", status=2)
    return headings.index(name.upper())


def _sorted(rows: Sequence[Row], place: int | None) -> Sequence[Row]:
    return rows if place is None else sorted(rows, key=lambda row: size(row.cells()[place]))


def size(cell: str) -> tuple[int, float, str]:
    """What a cell is sorted by: nothing, then numbers and times by size, no limit, and texts at last."""
    if cell in ("", "-", "?"):
        return (0, 0.0, "")
    if cell == "unlimited":
        return (2, 0.0, "")
    if _LASTING.fullmatch(cell):
        return (1, sum(float(part[:-1]) * _UNITS[part[-1]] for part in re.findall(r"\d+[dhms]", cell)), cell)
    if number := _AMOUNT.match(cell):
        return (1, float(number[0]), cell)
    return (3, 0.0, cell.strip().casefold())
