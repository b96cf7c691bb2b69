"""A process that outlives this one, to clean up after it: whoever is killed cannot."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

#: Nothing is ever written to it: its input ends when nobody is left who could.
_WAIT: Final = 'read -r _; exec "$@"'


@contextlib.contextmanager
def keep(command: Sequence[str]) -> Iterator[None]:
    """Run ``command`` when the block ends, or this process does, be it by SIGKILL.

    It has a session of its own, so that what ends our process group does not end it.
    """
    process = subprocess.Popen(
        ["sh", "-c", _WAIT, "keeper", *command], stdin=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.wait()
