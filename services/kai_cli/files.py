"""Files that commands are given to read."""

import sys
from pathlib import Path
from typing import Final

_STDIN: Final = Path("-")


def text_of(path: Path) -> str:
    """The text of a file; of standard input if it is called ``-``.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is no text.
    """
    return sys.stdin.read() if path == _STDIN else path.read_text(encoding="utf-8")
