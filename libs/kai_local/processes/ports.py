"""Choosing ports on loopback that stay ours.

A port that the kernel picks lies in the range from which it also serves outgoing connections, so one of
those could take it while its owner restarts. Ours lie below that range, and are claimed: another process that
chooses does not get them before they are listened on, nor while their owner restarts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

LOOPBACK = "127.0.0.1"
_LOWEST = 20000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS = 200
#: Those that this process has claimed.
_OURS: Final[set[int]] = set()


class PortInUse(Exception):
    """A port that was asked for is taken, or none is free."""


def free_ports(count: int, *, taken: set[int] | None = None) -> list[int]:
    """``count`` different ports that nobody listens on now; claimed while this process lives."""
    first_ephemeral = int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32768
    found: list[int] = []
    avoid = set(taken or ())
    for _ in range(_ATTEMPTS + 10 * count):
        if len(found) == count:
            return found
        port = random.randrange(_LOWEST, max(first_ephemeral, _LOWEST + 1000))  # noqa: S311
        if port not in avoid and is_free(port) and _claim(port):
            found.append(port)
            avoid.add(port)
    if len(found) == count:
        return found
    raise PortInUse(f"no free port found on {LOOPBACK} between {_LOWEST} and {first_ephemeral}")


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether one could listen there now."""
    return _hindrance(port, host) is None


def require_free(address: str) -> None:
    """Raise :class:`PortInUse` if nobody could listen at ``host:port``, with the reason."""
    host, _, text = address.rpartition(":")
    host, port = host.strip("[]"), int(text)
    hindrance = _hindrance(port, host or "0.0.0.0") if port else None
    if hindrance is None:
        return
    where = host or "this machine"
    if hindrance.errno == errno.EADDRINUSE:
        raise PortInUse(f"port {port} is already in use on {where}; choose another one")
    raise PortInUse(f"port {port} of {where} cannot be used: {hindrance.strerror}; choose another one")


def _hindrance(port: int, host: str) -> OSError | None:
    """What keeps one from listening there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OverflowError:
            return OSError(errno.EINVAL, "ports go up to 65535")
        except OSError as error:
            return error
    return None


def _claim(port: int) -> bool:
    """Whether nobody of this user has claimed the port; then this process has, until it ends."""
    if port in _OURS:
        return False
    if (file := _claims()) is not None:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False  # else its file system knows no locks: then there are no claims
    _OURS.add(port)
    return True


@cache
def _claims() -> int | None:
    """A file of which each process locks the bytes of its ports; None where there can be none.

    It stays open: a process that closes it anywhere loses all its locks.
    """
    path = Path(tempfile.gettempdir()) / f"kai-ports-{os.getuid()}"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
