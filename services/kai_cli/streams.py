"""Standard output and errors as a shell gives them: closed, full, or in an encoding that lacks a letter."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kai_cli.output import fail

#: What writing fails with where nothing can be written; not where nobody reads any more, which is no mistake.
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


@contextmanager
def usable() -> Iterator[None]:
    """Have the block print whatever it wants: what an encoding lacks is replaced, and closed output dropped.

    Raises:
        typer.Exit: nothing more can be written, which has been told.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (until we end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _drop_output()
        raise fail(f"the output cannot be written: {error.strerror}") from error


def _drop_output() -> None:
    """What is left of it would be written, and fail again, when we end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
