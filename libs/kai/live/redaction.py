"""Texts without the names of what somebody may not see."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any, Final

#: ``namespace/name``, or ``namespace/kind/name``.
_NAMED: Final = re.compile(r"(?<![\w./-])([a-z0-9][-a-z0-9]*)/\w(?:[-\w.]*\w)?(?:/\w(?:[-\w.]*\w)?)?")
#: What stands there instead.
SOMEBODY: Final = "somebody's work"


def named(text: str) -> Iterator[str]:
    """What may be a namespace of something that a text names."""
    return (found[1] for found in _NAMED.finditer(text))


def redacted(told: Any, hidden: Container[str]) -> Any:
    """The same JSON, where nothing is named that lies in a namespace of ``hidden``."""
    match told:
        case str():
            return _NAMED.sub(lambda found: SOMEBODY if found[1] in hidden else found[0], told)
        case dict():
            return {redacted(key, hidden): redacted(value, hidden) for key, value in told.items()}
        case list() | tuple():
            return [redacted(each, hidden) for each in told]
        case _:
            return told
