"""Names without what is another with each run: ``train-20261101-x7k2p`` is ``train-#``."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = re.compile(r"[0-9]+")
#: The letters from which Kubernetes draws the ends of names; no word of five of them is in use.
_DRAWN: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10}")
_HASH: Final = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{6,}")
_AGAIN: Final = re.compile(r"(?:([-._])#)(?:[-._]#)+")


def pattern(name: str) -> str:
    """A name with ``#`` for its numbers and hashes; several in a row are one."""
    parts = re.split(r"([-._])", name)
    plain = "".join(
        "#" if _DRAWN.fullmatch(part) or _HASH.fullmatch(part) else _DIGITS.sub("#", part) for part in parts
    )
    return _AGAIN.sub(r"\1#", plain)
