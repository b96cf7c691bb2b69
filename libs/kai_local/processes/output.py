"""Lines for whoever has started us, who may have stopped reading, as ``head`` does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO


def say(line: str, out: TextIO, *, unheard: Callable[[], None] | None = None) -> None:
    """Print a line now.

    Where nobody reads any more, ``unheard`` is called, and what is said later goes nowhere.

    Raises:
        BrokenPipeError: nobody reads any more, and there is no ``unheard``.
    """
    try:
        print(line, file=out, flush=True)
    except BrokenPipeError:
        if unheard is None:
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)
        unheard()
