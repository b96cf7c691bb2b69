"""What the minutes of a gate are to be compared with: how quick this machine is."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Final

#: The measure by which tests and ``kai local`` wait; not imported, as nothing is installed at first.
_SLOWNESS: Final = Path(__file__).resolve().parents[2] / "libs" / "kai_local" / "processes" / "slowness.py"


def described() -> str:
    """How many cores, and how quick each of them is at this moment."""
    measures = runpy.run_path(str(_SLOWNESS))
    return f"{measures['cores']()} cores of {1 / measures['speed']():.1f} times the usual speed"
