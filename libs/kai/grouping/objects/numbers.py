"""Numbers in labels and annotations, which are always strings."""

import re
from typing import Final

from kai.grouping.errors import InvalidWorkload

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")
_LIMIT: Final = 2**31


def int32(text: str) -> int | None:
    """The base-10 number of 32 bits with an optional sign, or ``None``; spaces are not allowed."""
    if not _DECIMAL.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if -_LIMIT <= number < _LIMIT else None


def parse_int32(text: str, *, of: str, what: str, at_least: int | None = None) -> int:
    """Like :func:`int32`.

    Raises:
        InvalidWorkload: not a number, or one below ``at_least``; the message names ``what`` of which object.
    """
    number = int32(text)
    if number is None:
        raise InvalidWorkload(f"{of}: {what} must be an integer, but is {text!r}")
    if at_least is not None and number < at_least:
        raise InvalidWorkload(f"{of}: {what} must be at least {at_least}, but is {number}")
    return number
