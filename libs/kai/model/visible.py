"""What somebody else wrote, as a terminal may be given it."""

from __future__ import annotations

import re
from typing import Final

#: Unicode's category Cc, both halves of it, by which terminals are commanded; and what else ends a line.
_OBEYED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OBEYED_IN_LINE: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with what a terminal obeys spelled, as ``\x1b``; with ``lines``, ends of lines stay."""
    return (_OBEYED_IN_LINE if lines else _OBEYED).sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
