"""What was compiled when an image was built, brought to where it is looked for.

Numba writes where it reads, and the file system of an image is read-only. So a process that will need it
copies it to a writable place when it starts. What starts the process cannot do it: pods name a command, and
what an image would run before is not run then.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

_log: Final = structlog.get_logger(__name__)


def lay_out(*, prefix: Path = Path(sys.prefix), environment: Mapping[str, str] = os.environ) -> None:
    """Copy the folder ``numba`` of this installation to ``$NUMBA_CACHE_DIR``, unless that is there.

    Where it cannot be copied all is compiled when it is needed, as without an image; that is logged.
    """
    source, named = prefix / "numba", environment.get("NUMBA_CACHE_DIR")
    if not named or not source.is_dir():
        return
    target = Path(named)
    if target.exists():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            Path(shutil.copytree(source, Path(folder) / "numba")).rename(target)
    except OSError as error:
        _log.warning("what the image has compiled cannot be used", target=str(target), error=str(error))
