"""Which NUMA node each CPU belongs to, as the kernel tells in ``/sys``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NODE: Final = re.compile(r"node([0-9]{1,6})")
_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


class NoTopology(Exception):
    """The kernel does not say which NUMA nodes there are, or not in a way that can be understood."""


def zones_by_cpu(root: Path) -> dict[int, int]:
    """NUMA node by CPU, of ``root/devices/system/node/node<N>/cpulist``.

    Raises:
        NoTopology: there is none.
    """
    folder = root / "devices" / "system" / "node"
    zones: dict[int, int] = {}
    try:
        for entry in sorted(folder.iterdir()):
            if named := _NODE.fullmatch(entry.name):
                cpus = (entry / "cpulist").read_text(encoding="ascii")
                zones |= dict.fromkeys(cpus_of(cpus), int(named[1]))
    except (OSError, UnicodeDecodeError) as error:
        raise NoTopology(f"{folder} cannot be read: {error}; is the node's /sys mounted there?") from error
    if not zones:
        raise NoTopology(f"{folder} names no NUMA node with CPUs; is the node's /sys mounted there?")
    return zones


def cpus_of(text: str) -> Iterator[int]:
    """The CPUs of a list such as ``0-3,8``.

    Raises:
        NoTopology: it is no such list.
    """
    for part in filter(None, text.strip().split(",")):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise NoTopology(f"{text.strip()!r} is no list of CPUs such as 0-3,8")
        first = int(found[1])
        yield from range(first, int(found[2] or first) + 1)
