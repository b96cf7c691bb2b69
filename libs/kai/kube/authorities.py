"""The module aiohttp, imported without reading all certificate authorities of the machine.

aiohttp makes two TLS contexts when it is imported, and reads the authorities for each of them: 0.05 s and
2 MiB in each of our processes, of which hardly any meets a certificate of a public authority. Its contexts
read them here when they are first used; for whoever uses them nothing else is different.
"""

from __future__ import annotations

import importlib
import ssl
import sys
from typing import Any, Final

_READS: Final = "set_default_verify_paths"


class LateAuthorities(ssl.SSLContext):
    """A context that reads the machine's authorities before its first connection."""

    _read = False

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:
        """As of any context; connections of asyncio begin here."""
        if not self._read:
            self._read = True
            self.set_default_verify_paths()
        return super().wrap_bio(*given, **named)


def _import_aiohttp() -> None:
    late: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        late.append(context)

    # The class inherits it, so that what is set here hides it until it is taken away again.
    setattr(ssl.SSLContext, _READS, note)
    try:
        importlib.import_module("aiohttp")
    finally:
        delattr(ssl.SSLContext, _READS)
    for context in late:
        context.__class__ = LateAuthorities


# Whoever imported it before has read them already.
if "aiohttp" not in sys.modules:
    _import_aiohttp()

import aiohttp  # noqa: E402

__all__ = ["LateAuthorities", "aiohttp"]
