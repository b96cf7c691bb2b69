"""``kai ui``: a page to look at a cluster, opened in the browser."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from kai_cli.connection import Target, ask
from kai_cli.logs import configure_loaded
from kai_cli.output import fail

#: So long a browser has to read the file that leads it to us.
_OPENING_SECONDS: Final = 20.0
_LEADS: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">
<title>kai</title></head><body><p><a href="{address}">Go on</a></p></body></html>
"""


def ui(
    context: typer.Context,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On loopback; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser, where there is one.")] = True,
) -> None:
    """Open a page to look at the cluster: who is where, what waits, and why. Ctrl-C ends it.

    It is served on loopback, to the one browser that opens the address, and shows what you may read. Nothing
    in the cluster has to run for it.
    """
    show(Target.of(context), port=port, browser=browser)


def show(target: Target, *, port: int = 0, browser: bool = True) -> None:
    """Serve the page over a cluster until Ctrl-C."""

    async def question() -> None:
        from kai.runtime.health import ListenError
        from kai_cli.looking.server import serving

        configure_loaded()
        ended = _ended()
        async with target.cluster() as client:
            try:
                async with serving(target, client, port=port) as address:
                    typer.echo(f"The page is at {address}")
                    typer.echo("The address works once. Ctrl-C ends it.")
                    sys.stdout.flush()
                    async with _opened(address, wanted=browser):
                        await ended.wait()
            except ListenError as error:
                raise fail(str(error)) from error

    ask(question)


def _ended() -> asyncio.Event:
    """Is set by Ctrl-C, and when whoever started us ends us."""
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told


@asynccontextmanager
async def _opened(address: str, *, wanted: bool) -> AsyncIterator[None]:
    """Have a browser open an address while the block runs, by a file that only its user can read.

    As an argument everybody on the machine would see it.
    """
    import tempfile
    import webbrowser

    if not wanted or not _has_screen():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kai-ui-") as folder:
        file = Path(folder) / "kai.html"
        file.touch(mode=0o600)
        file.write_text(_LEADS.format(address=address), encoding="utf-8")
        opening = asyncio.create_task(asyncio.to_thread(webbrowser.open, file.as_uri()))
        removing = asyncio.get_running_loop().call_later(_OPENING_SECONDS, file.unlink, True)
        try:
            yield
        finally:
            removing.cancel()
            await asyncio.wait([opening])


def _has_screen() -> bool:
    """Whether a browser would have somewhere to show itself; those of terminals are left alone."""
    if sys.platform in ("darwin", "win32") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
