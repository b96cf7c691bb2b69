"""The images that the nodes of a running cluster have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kai_local.errors import ClusterError
from kai_local.node import runtime
from kai_local.node.commands import run
from kai_local.processes.records import ProcessRecord

_ROOM: Final = re.compile(r"room-(\d+)")
#: A line of the list: name, media type, digest, size with its unit. Names that are digests are left out.
_LINE: Final = re.compile(r"(?!sha256:)(?P<name>\S+) +application/\S+ +sha256:\S+ +(?P<size>[\d.]+ \S+) ")
_LOAD_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image on a node. ``size`` is that of what is transported, compressed as it is, with its unit."""

    node: str
    name: str
    size: str


@dataclass(frozen=True, slots=True)
class Store:
    """The images of one node. ``room``: the process that holds its namespaces."""

    node: str
    room: int
    ctr: Path

    def load(self, archive: Path) -> None:
        """Put the images of an archive in.

        Raises:
            ClusterError: there is no such file, it is none, or it takes too long.
        """
        if not archive.is_file():
            raise ClusterError(f"there is no file {archive}")
        command = runtime.import_command(self.ctr, archive.absolute())
        run(*self._inside, *command, seconds=_LOAD_SECONDS)

    def images(self) -> list[Image]:
        """All of them, by name.

        Raises:
            ClusterError: containerd does not answer.
        """
        listed = run(*self._inside, *runtime.list_command(self.ctr)).splitlines()
        found = (match for line in listed if (match := _LINE.match(line)))
        return [Image(self.node, match["name"], match["size"]) for match in found]

    @property
    def _inside(self) -> tuple[str, ...]:
        return "nsenter", f"--target={self.room}", "--mount", "--net", "--"


def of(processes: Sequence[ProcessRecord], *, ctr: Path) -> list[Store]:
    """The stores of the nodes whose processes these are, as seen by the program ``ctr``.

    Raises:
        ClusterError: there are none.
    """
    rooms = [(match[1], process.pid) for process in processes if (match := _ROOM.fullmatch(process.name))]
    if not rooms:
        raise ClusterError("the cluster has no real nodes: its pods need no images")
    return [Store(f"kubelet-{index}", pid, ctr) for index, pid in rooms]
