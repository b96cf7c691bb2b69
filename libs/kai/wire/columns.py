"""Columns on the wire: little-endian arrays as ``bytes``, texts joined by newlines.

Every length is checked here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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


def pack(values: Iterable[Any], dtype: str) -> bytes:
    """Numbers (or rows of numbers) as a column; ``dtype`` is a numpy name with byte order, like ``<i4``."""
    return np.array(list(values), dtype=dtype).tobytes()


def unpack(data: bytes, dtype: str, *, rows: int, width: int = 1, field: str) -> NDArray[Any]:
    """The numbers of a column: shape (rows,), or (rows, width) where width is greater than 1.

    Raises:
        MalformedMessage: the column is longer or shorter than that.
    """
    expected = rows * width * np.dtype(dtype).itemsize
    if len(data) != expected:
        raise MalformedMessage(f"{field}: {len(data)} bytes where {rows} rows need {expected}")
    column = np.frombuffer(data, dtype=dtype)
    return column.reshape(rows, width) if width > 1 else column
