"""Addresses to listen on, as options take them."""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([^:]*)):([0-9]{1,5})", re.ASCII)
_HIGHEST_PORT: Final = 65535


def split(address: str) -> tuple[str, int]:
    """Host, empty where none is named, and port of ``HOST:PORT``; an address of IPv6 stands in brackets.

    Raises:
        ValueError: it is none; says what to write.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[3]) > _HIGHEST_PORT:
        is_ipv6 = ":" in address.rpartition(":")[0]
        example = "with IPv6 in brackets, for example [::1]:8080" if is_ipv6 else "for example 127.0.0.1:8080"
        raise ValueError(f"{address!r} is not HOST:PORT, {example}")
    return found[1] or found[2] or "", int(found[3])


def written(host: str, port: int) -> str:
    """``HOST:PORT`` as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
