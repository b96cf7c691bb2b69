"""Removing what nodes leave on the machine when their processes are gone, or have been killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from kai_local.node import cgroups
from kai_local.node.commands import run
from kai_local.node.marks import Marks

_INTERFACES: Final = Path("/sys/class/net")


def remove(directory: Path) -> None:
    """Remove all that the nodes of the cluster in ``directory`` have beyond their files; nothing is no error.

    Raises:
        ClusterError: something of it does not go.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return  # who is not root has had none
    marks = Marks.of(directory)
    cgroups.remove(marks.cgroup)
    for interface in sorted(_INTERFACES.glob(f"{marks.name}*"), reverse=True):
        # A port goes with the namespace behind it, maybe just now.
        run(
            "sh",
            "-c",
            'ip link delete "$0" 2>/dev/null || ! ip link show "$0" >/dev/null 2>&1',
            interface.name,
        )
