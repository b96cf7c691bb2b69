"""What the process that runs the chart's pods is told; to be imported without what it needs itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec


class MachineOptions(msgspec.Struct, frozen=True):
    """Where everything is.

    ``egress``: where the API server asks for a way to the pods, ``host:port`` or the path of a Unix socket.
    ``record``: the file that says which processes run, for ``kai local status``.
    ``ours``: arguments that name files of this machine and not of a pod. ``fork``: whether its processes are
    forked where they can be.
    """

    kubeconfig: Path
    folder: Path
    logs: Path
    record: Path
    egress: str
    ready_file: Path
    ours: list[str] = []
    fork: bool = True

    def command_line(self) -> tuple[str, ...]:
        """The command that runs them so."""
        return sys.executable, "-m", "kai_local.machine", msgspec.json.encode(self, enc_hook=str).decode()


def decode(text: str) -> MachineOptions:
    """What :meth:`MachineOptions.command_line` says."""
    return msgspec.json.decode(text, type=MachineOptions, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(kind)
