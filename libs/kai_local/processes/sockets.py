"""Paths of Unix sockets, for which the kernel has little room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: Bytes. There is room for 107 on Linux, and for 103 on others.
_LONGEST: Final = 100


def fits(path: Path) -> bool:
    """Whether a socket can have this path."""
    return len(os.fsencode(path)) <= _LONGEST
