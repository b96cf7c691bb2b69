"""Files that commands are given to read or to write."""

import os
import sys
from pathlib import Path
from typing import Final

import typer

from kai_cli.output import fail

_STDIO: Final = Path("-")


def text_of(path: Path) -> str:
    """The text of a file, without its byte order mark; of standard input if it is called ``-``.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is no text.
    """
    if path == _STDIO:
        if sys.stdin is None:
            raise OSError("there is no standard input; name a file")
        return sys.stdin.read().removeprefix("\ufeff")
    return path.read_text(encoding="utf-8-sig")


def to_write(path: Path | None) -> Path | None:
    """The value of an option that names a file to write, once it may well be written: for ``callback``.

    What takes minutes is not begun for a file that cannot be.

    Raises:
        typer.BadParameter: it cannot be written; says why.
    """
    if path is None:
        return path
    if path == _STDIO:
        raise typer.BadParameter("this is not written to standard output; name a file")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} is not there; make it first")
    where = path.resolve()  # a link may lead to what is not there yet
    if not path.exists() and not where.parent.is_dir():
        raise typer.BadParameter(f"{path} leads to {where}, and the folder {where.parent} is not there")
    if not os.access(path if path.exists() else where.parent, os.W_OK):
        raise typer.BadParameter(f"you may not write {path}")
    return path


def to_write_or_print(path: Path | None) -> Path | None:
    """As :func:`to_write`, for what may also go to standard output, which is called ``-``."""
    return path if path == _STDIO else to_write(path)


def to_draw(path: Path | None) -> Path | None:
    """As :func:`to_write`, for a drawing: its suffix is one of those that can be drawn.

    Raises:
        typer.BadParameter: it cannot be written, or nothing here draws it; says why.
    """
    if path is None:
        return path
    to_write(path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise typer.BadParameter(
            "drawing needs matplotlib; install it with pip install 'kai-scheduler[plot]'"
        ) from error
    if path.suffix.lower().removeprefix(".") not in Figure().canvas.get_supported_filetypes():
        problem = f"cannot be drawn as {path.suffix}" if path.suffix else "has no suffix"
        raise typer.BadParameter(f"{path} {problem}; write .png or .svg")
    return path


def write(path: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        typer.Exit: it cannot be written, which has been told.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise fail(f"{path}: {error.strerror}") from error
