"""Columns on the wire: little-endian arrays as ``bytes``, texts joined by newlines.

Every length is checked here and nowhere else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kai.wire.errors import MalformedMessage

SEPARATOR: Final = "\n"


def join(texts: Sequence[str], *, field: str) -> str:
    """Texts as one column.

    Raises:
        MalformedMessage: a text contains a newline, which would shift all rows after it.
    """
    column = SEPARATOR.join(texts)
    if texts and column.count(SEPARATOR) != len(texts) - 1:
        broken = next(text for text in texts if SEPARATOR in text)
        raise MalformedMessage(f"{field}: {broken!r} contains a newline and cannot be a column entry")
    return column


def split(column: str, *, rows: int, field: str) -> list[str]:
    """The texts of a column of ``rows`` entries.

    Raises:
        MalformedMessage: there are more or fewer.
    """
    texts = column.split(SEPARATOR) if rows or column else []
    if len(texts) != rows:
        raise MalformedMessage(f"{field}: {len(texts)} texts for {rows} rows")
    return texts


def pack(values: Iterable[float], kind: str) -> bytes:
    """Numbers as a column; ``kind`` is what :mod:`struct` calls them, like ``i`` and ``d``."""
    numbers = list(values)
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


def unpack(data: bytes, kind: str, *, count: int, field: str) -> tuple[Any, ...]:
    """The ``count`` numbers of a column.

    Raises:
        MalformedMessage: the column is longer or shorter than that.
    """
    layout = f"<{count}{kind}"
    expected = struct.calcsize(layout)
    if len(data) != expected:
        raise MalformedMessage(f"{field}: {len(data)} bytes where {count} numbers need {expected}")
    return struct.unpack(layout, data)
