"""NVIDIA's management library, as containers with stand-in devices find it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kai_local.node.commands import run

_SOURCE: Final = Path(__file__).with_name("nvml.c")
LIBRARY: Final = "libnvidia-ml.so.1"
_SECONDS: Final = 60.0


def build(folder: Path) -> Path:
    """Compile it into ``folder``.

    Raises:
        ClusterError: it cannot be compiled.
    """
    library = folder / LIBRARY
    run(
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        f"-Wl,-soname,{LIBRARY}",
        "-o",
        str(library),
        str(_SOURCE),
        seconds=_SECONDS,
    )
    return library
