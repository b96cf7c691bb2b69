"""By which host others reach a server of ours."""

from __future__ import annotations

import os
import socket

from kai.runtime.health import split_address


def advertised_host(told: str, *, listen: str) -> str:
    """As told, else where it listens, else our pod's or machine's address."""
    if told:
        return told
    host, _ = split_address(listen)
    if host and host not in ("0.0.0.0", "::"):
        return host
    return os.environ.get("POD_IP") or socket.gethostbyname(socket.gethostname())
