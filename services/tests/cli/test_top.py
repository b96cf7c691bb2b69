"""``kai top`` on a terminal: what it shows, and how it leaves the terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from deadlines import patience

pytestmark = pytest.mark.integration

#: The command on a cluster that has nothing but a headline. Tests in the background of a shell ignore Ctrl-C,
#: and so would all that they start.
KAI = """
import signal
from contextlib import asynccontextmanager

signal.signal(signal.SIGINT, signal.default_int_handler)

from kai_cli import connection, top
from kai_cli.__main__ import main

async def look(client, target):
    return top.Seen(headline=["nothing but a headline"], lists=())

@asynccontextmanager
async def cluster(target):
    yield None

top.look = look
connection.Target.cluster = cluster
main()
"""
TO_THE_SCREEN, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A terminal on which ``kai top`` runs."""

    def __init__(self, kind: str) -> None:
        self._ours, self.theirs = pty.openpty()
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", KAI, "top"],
            env={**os.environ, "TERM": kind},
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
        )

    def read(self) -> bool:
        """What it shows next; whether there was something in time."""
        ready, _, _ = select.select([self._ours], [], [], patience())
        if ready:
            self.seen += os.read(self._ours, 4096)
        return bool(ready)

    def shows(self, text: bytes) -> None:
        while text not in self.seen:
            assert self.read(), (text, self.seen)

    def ended(self) -> int:
        return self.process.wait(patience())

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.theirs)[3] & termios.ECHO)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    found = Terminal(request.param)
    yield found
    found.close()


@pytest.mark.parametrize("terminal", ["dumb"], indirect=True)
def test_a_terminal_that_cannot_move_its_cursor_gets_one_look(terminal: Terminal) -> None:
    terminal.shows(b"nothing but a headline")
    assert terminal.ended() == 0
    assert TO_THE_SCREEN not in terminal.seen


@pytest.mark.parametrize("terminal", ["xterm"], indirect=True)
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_whoever_ends_it_gets_his_terminal_back(terminal: Terminal, number: int, status: int) -> None:
    terminal.shows(b"q end")
    assert TO_THE_SCREEN in terminal.seen
    assert not terminal.echoes
    terminal.process.send_signal(number)
    terminal.shows(BACK)
    assert terminal.ended() == status
    assert terminal.echoes
    assert b"Traceback" not in terminal.seen
