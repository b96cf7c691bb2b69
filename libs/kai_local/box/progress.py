"""Telling what happens while a cluster comes up: to a terminal, to a pipe, or to a parent process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from kai_local.processes import output

if TYPE_CHECKING:
    from rich.console import Console


class Progress(Protocol):
    """Takes steps that begin and end, and lines in between."""

    def begin(self, step: str) -> None: ...  # noqa: D102
    def done(self, step: str, seconds: float) -> None: ...  # noqa: D102
    def say(self, line: str) -> None: ...  # noqa: D102


@contextmanager
def step(progress: Progress, text: str) -> Iterator[None]:
    """One step; it counts as done only if nothing was raised in it."""
    began = time.monotonic()
    progress.begin(text)
    yield
    progress.done(text, time.monotonic() - began)


class Lines:
    """One plain line for each step that is done. ``unheard`` is called where nobody reads them any more."""

    def __init__(self, out: TextIO, unheard: Callable[[], None] | None = None) -> None:
        self._out = out
        self._unheard = unheard

    def begin(self, step: str) -> None:
        """Nothing: what takes long is seen when it is done."""

    def done(self, step: str, seconds: float) -> None:
        """Say so."""
        self.say(f"{step} ({seconds:.1f} s)")

    def say(self, line: str) -> None:
        """Print the line now."""
        output.say(line, self._out, unheard=self._unheard)


class Terminal:
    """A line for each step, with something that moves while it lasts."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console: Console = Console(highlight=False)
        self._status = self._console.status("")

    def begin(self, step: str) -> None:
        """Show what is being done."""
        self._status.update(step)
        self._status.start()

    def done(self, step: str, seconds: float) -> None:
        """Leave a line."""
        self._status.stop()
        self._console.print(f"[green]✓[/green] {step} [dim]{seconds:.1f} s[/dim]")

    def say(self, line: str) -> None:
        """Print the line, with rich's markup taken literally."""
        self._status.stop()
        self._console.print(line, markup=False, soft_wrap=True)


class Relay:
    """For a parent process: each call as a line of JSON, to be given to :func:`replay` there."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, step: str) -> None:
        """Tell the parent."""
        self._send("begin", step)

    def done(self, step: str, seconds: float) -> None:
        """Tell the parent."""
        self._send("done", step, seconds)

    def say(self, line: str) -> None:
        """Tell the parent."""
        self._send("say", line)

    def _send(self, *call: object) -> None:
        print(json.dumps(call), file=self._out, flush=True)


def replay(line: str, progress: Progress) -> None:
    """Do to ``progress`` what a child's :class:`Relay` says; anything else is a line to be said."""
    try:
        call = json.loads(line)
    except ValueError:
        call = None
    match call:
        case ["begin", str(step)]:
            progress.begin(step)
        case ["done", str(step), int() | float() as seconds]:
            progress.done(step, seconds)
        case ["say", str(text)]:
            progress.say(text)
        case _:  # also JSON of others: logs that an error quotes
            progress.say(line.rstrip("\n"))


def for_stream(out: TextIO, unheard: Callable[[], None] | None = None) -> Progress:
    """What suits a stream: movement on a terminal, plain lines elsewhere (see there for ``unheard``)."""
    if out is sys.stdout and out.isatty():
        return Terminal()
    return Lines(out, unheard)
