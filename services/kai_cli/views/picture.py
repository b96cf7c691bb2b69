"""What ``kai top`` shows of what it knows, and how keys change that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rich.console import Console, Group, RenderableType
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
    headline: Sequence[str],
    lists: Sequence[Listing],
    picture: Picture,
    *,
    keys: bool,
    screen: Console | None = None,
) -> RenderableType:
    """Everything, the keys in the last line where there are any.

    Where there is a screen it fits on that: lists that are too long for their share of it end in how many
    more rows they have.
    """
    head: list[RenderableType] = [Text(visible(line)) for line in headline if line]
    blocks = [
        _block(number, listing, picture, keys=keys)
        for number, listing in enumerate(lists)
        if number not in picture.hidden and listing.rows
    ]
    foot: list[RenderableType] = []
    if keys:
        foot = [Text(""), Text(("paused   " if picture.paused else "") + HELP, style="dim")]
    if screen is None:
        return Group(*head, *(part for block in blocks for part in block.parts(len(block.rows))), *foot)
    room = screen.height - _lines(screen, foot)
    head = head if _lines(screen, head) <= room else []
    shares = _shares([block.wanted(screen) for block in blocks], room - _lines(screen, head))
    shown = [part for block, share in zip(blocks, shares, strict=True) for part in block.cut(screen, share)]
    return Group(*head, *shown, *foot)


@dataclass(frozen=True, slots=True)
class _Block:
    """A list as it is drawn: its title, which may be empty, and its rows in order."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def parts(self, count: int) -> list[RenderableType]:
        """With so many rows, and how many more there are."""
        parts: list[RenderableType] = [Text("")]
        if self.title:
            parts.append(Text(self.title, style="bold"))
        if count:
            parts.append(table(self.columns, self.rows[:count]))
        if count < len(self.rows):
            parts.append(Text(f"… and {len(self.rows) - count} more"))
        return parts

    def wanted(self, screen: Console) -> int:
        """Lines of all of it, or more than there are on the screen."""
        return _lines(screen, self.parts(min(len(self.rows), screen.height)))

    def cut(self, screen: Console, share: int) -> list[RenderableType]:
        """With as many rows as so many lines take; nothing where not even its title fits."""
        most = min(len(self.rows), max(share, 0))
        fitting = bisect_right(range(most + 1), share, key=lambda count: _lines(screen, self.parts(count)))
        return self.parts(fitting - 1) if fitting else []


def _block(number: int, listing: Listing, picture: Picture, *, keys: bool) -> _Block:
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
    return _Block(title, listing.columns, rows)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Lines for each: all get the same, and what one has no use for is for those who want more."""
    shares, left = [0] * len(wanted), max(room, 0)
    ascending = sorted(range(len(wanted)), key=wanted.__getitem__)
    for served, index in enumerate(ascending):
        shares[index] = min(wanted[index], left // (len(wanted) - served))
        left -= shares[index]
    return shares


def _lines(screen: Console, parts: Sequence[RenderableType]) -> int:
    options = screen.options.update(height=None)
    return sum(len(screen.render_lines(part, options, pad=False)) for part in parts)
