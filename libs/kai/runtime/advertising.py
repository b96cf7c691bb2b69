"""By which host others reach a server of ours."""

from __future__ import annotations

import os
import socket

from kai.runtime.health import split_address


def advertised_host(told: str, *, listen: str) -> str:
    """As told, else where it listens, else our pod's or machine's address; a port can follow it."""
    host = told or _listening(listen) or os.environ.get("POD_IP") or _of_this_machine()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _listening(listen: str) -> str:
    host, _ = split_address(listen)
    return host if host and host not in ("0.0.0.0", "::") else ""


def _of_this_machine() -> str:
    """Of IPv4, where it has one."""
    found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    return str(min(found, key=lambda each: each[0] is not socket.AF_INET)[4][0])
