"""A Redis for the services of one cluster, where the user names none."""

from __future__ import annotations

from pathlib import Path

from kai_local.processes import probes, sockets
from kai_local.processes.ports import LOOPBACK, free_ports
from kai_local.processes.programs import Program


def redis(directory: Path) -> Program:
    """What is to be run; its ``address`` is the URL. It listens at a Unix socket in ``directory``, or on
    loopback where that has too long a path for one.
    """
    from kai.session.server import command

    directory.mkdir(exist_ok=True)
    socket = directory / "redis.sock"
    if sockets.fits(socket):
        arguments, ready = command(directory=directory, unix_socket=socket), probes.redis_socket(socket)
        return Program("redis", tuple(arguments), ready=ready, address=f"unix://{socket}")
    (port,) = free_ports(1)
    arguments, ready = command(directory=directory, port=port), probes.redis(LOOPBACK, port)
    return Program("redis", tuple(arguments), ready=ready, address=f"redis://{LOOPBACK}:{port}/0")
