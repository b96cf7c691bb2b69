"""What can be read of an object that cannot be read as a whole.

An API server passes on whatever JSON a field of no fixed shape holds: numbers that nothing can hold, and
values nested deeper than any program can walk. Who such an object is can be told all the same.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: Deeper than any field of a known shape; what is nested deeper is left out.
DEPTH: Final = 64
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|-?[0-9][0-9.]*[eE][+-]?[0-9]+', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"


class Identity(msgspec.Struct, rename="camel"):
    """Who an object is."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Known(msgspec.Struct):
    metadata: Identity


_DECODER: Final = msgspec.json.Decoder(_Known)


def identity(obj: bytes) -> Identity:
    """Who an object is, whatever else it says.

    Raises:
        msgspec.DecodeError: not even that can be read.
    """
    return _DECODER.decode(obj).metadata


def simplified(text: bytes) -> bytes:
    """The same JSON with null in place of what is nested too deep, and 0 for numbers with large exponents."""
    parts: list[bytes] = []
    depth = kept = 0
    for token in _TOKEN.finditer(text):
        first = token[0][:1]
        if first in _OPENING:
            depth += 1
            if depth == DEPTH + 1:
                parts.append(text[kept : token.start()])
        elif first in _CLOSING:
            if depth == DEPTH + 1:
                parts.append(b"null")
                kept = token.end()
            depth -= 1
        elif first != b'"' and depth <= DEPTH:
            parts += [text[kept : token.start()], b"0"]
            kept = token.end()
    return b"".join([*parts, text[kept:]])
