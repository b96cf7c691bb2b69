"""What ``kai top`` shows of what it knows, and how keys change that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from kai.model.visible import visible
from kai_cli.listing import Row, size
from kai_cli.output import Column, table

#: The keys, in the words of the last line.
HELP: Final = (
    "1-3 show or hide a list   TAB next list   < > column to sort by   R reverse   SPACE look now   "
    "p pause   q end"
)
_NEXT, _LEFT, _RIGHT, _REVERSE, _PAUSE = "\t", "<", ">", "R", "p"
#: Keys that end it.
ENDS: Final = frozenset({"q", "Q", "\x1b"})


@dataclass(frozen=True, slots=True)
class Listing:
    """One list: its name, columns and rows. What has an order of its own, as a tree, is not sorted."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown: lists by number, which of them keys are about, by which column each is sorted."""

    focus: int = 0
    hidden: frozenset[int] = frozenset()
    columns: Mapping[int, int] = field(default_factory=dict)
    reversed: frozenset[int] = frozenset()
    paused: bool = False


def after(picture: Picture, key: str, lists: Sequence[Listing]) -> Picture:
    """The picture after a key was pressed; the same after one that means nothing."""
    focus = picture.focus
    if key == _PAUSE:
        return replace(picture, paused=not picture.paused)
    if key == _NEXT:
        return replace(picture, focus=_next(picture, lists))
    if key == _REVERSE:
        return replace(picture, reversed=picture.reversed ^ {focus})
    if key in (_LEFT, _RIGHT) and not lists[focus].ordered:
        return replace(picture, columns={**picture.columns, focus: _column(picture, key, lists[focus])})
    if key.isdecimal() and 0 < int(key) <= len(lists):
        changed = replace(picture, hidden=picture.hidden ^ {int(key) - 1})
        return replace(changed, focus=_next(changed, lists)) if changed.focus in changed.hidden else changed
    return picture


def _next(picture: Picture, lists: Sequence[Listing]) -> int:
    numbers = [(picture.focus + step) % len(lists) for step in range(1, len(lists) + 1)]
    return next((number for number in numbers if number not in picture.hidden), picture.focus)


def _shown(listing: Listing) -> list[int]:
    return [number for number, column in enumerate(listing.columns) if not column.wide]


def _column(picture: Picture, key: str, listing: Listing) -> int:
    shown = _shown(listing)
    now = picture.columns.get(picture.focus)
    if now is None:
        return shown[0] if key == _RIGHT else shown[-1]
    return shown[(shown.index(now) + (1 if key == _RIGHT else -1)) % len(shown)]


def drawn(
    headline: Sequence[str], lists: Sequence[Listing], picture: Picture, *, keys: bool
) -> RenderableType:
    """Everything, the keys in the last line where there are any."""
    parts: list[RenderableType] = [Text(visible(line)) for line in headline if line]
    for number, listing in enumerate(lists):
        if number in picture.hidden or not listing.rows:
            continue
        by = picture.columns.get(number)
        rows = [row.cells() for row in listing.rows]
        if by is not None:
            rows.sort(key=lambda cells, by=by: size(cells[by]))  # type: ignore[misc]
        if number in picture.reversed and not listing.ordered:
            rows.reverse()
        title = ""
        if keys:
            order = "" if by is None else f", by {listing.columns[by].heading}"
            backwards = " backwards" if number in picture.reversed and not listing.ordered else ""
            title = f"{'▶' if number == picture.focus else ' '} {number + 1} {listing.name}{order}{backwards}"
        parts += [Text(""), *([Text(title, style="bold")] if title else []), table(listing.columns, rows)]
    if keys:
        parts += [Text(""), Text(("paused   " if picture.paused else "") + HELP, style="dim")]
    return Group(*parts)
