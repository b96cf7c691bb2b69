"""Choosing ports on loopback that stay ours.

A port that the kernel picks lies in the range from which it also serves outgoing connections, so one of
those could take it while its owner restarts. Ours lie below that range.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 20000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS = 200


class PortInUse(Exception):
    """A port that was asked for is taken, or none is free."""


def free_ports(count: int, *, taken: set[int] | None = None) -> list[int]:
    """``count`` different ports that nobody listens on now."""
    first_ephemeral = int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32768
    found: list[int] = []
    avoid = set(taken or ())
    for _ in range(_ATTEMPTS + 10 * count):
        if len(found) == count:
            return found
        port = random.randrange(_LOWEST, max(first_ephemeral, _LOWEST + 1000))  # noqa: S311
        if port not in avoid and is_free(port):
            found.append(port)
            avoid.add(port)
    if len(found) == count:
        return found
    raise PortInUse(f"no free port found on {LOOPBACK} between {_LOWEST} and {first_ephemeral}")


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether one could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def require_free(address: str) -> None:
    """Raise :class:`PortInUse` if nobody could listen at ``host:port``."""
    host, _, port = address.rpartition(":")
    if int(port) and not is_free(int(port), host or "0.0.0.0"):
        raise PortInUse(f"port {port} is already in use on {host or 'this machine'}; choose another one")
