"""Keys of a terminal, one by one, while something else is shown."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LONGEST: Final = 64
#: What a key sends: arrows, function keys and those with Alt send several characters, the first of them that
#: of the escape key.
_KEY: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\x1b]|.", re.DOTALL)


def keys_in(text: str) -> list[str]:
    """The keys of what a terminal sent at once."""
    return _KEY.findall(text)


@contextmanager
def pressed() -> Iterator[asyncio.Queue[str]]:
    """What is pressed on standard input, while the block runs; nothing where that is no terminal.

    Keys are not shown. Ctrl-C works as always. In the end the terminal is as it was.
    """
    keys: asyncio.Queue[str] = asyncio.Queue()
    if sys.stdin is None or not sys.stdin.isatty():
        yield keys
        return
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def read() -> None:
        for key in keys_in(os.read(number, _LONGEST).decode(errors="ignore")):
            keys.put_nowait(key)

    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, read)
    try:
        yield keys
    finally:
        loop.remove_reader(number)
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(number, termios.TCSADRAIN, before)
