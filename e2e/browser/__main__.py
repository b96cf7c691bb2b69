"""``python -m e2e.browser``: build the page, compare it with the committed one, try it in a real Chromium.

Status 0 if all holds, 1 if not, 3 where there is no browser or no npm, and none can be installed.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

from e2e import debian
from e2e.browser import pictures
from e2e.browser.chromium import BrowserMissing, program

ROOT: Final = Path(__file__).resolve().parents[2]
_UNAVAILABLE: Final = 3


def main() -> int:
    """Do what is asked for, everything but pictures if nothing is."""
    parser = argparse.ArgumentParser(prog="python -m e2e.browser")
    parser.add_argument("--base", action="store_true", help="only install what is missing here")
    parser.add_argument("--screenshots", action="store_true", help="take the pictures of docs/page.md")
    given, more = parser.parse_known_args()
    try:
        _install(needs_npm=not given.screenshots)
    except debian.Unavailable as error:
        sys.stderr.write(f"the page cannot be tried here: {error}\n")
        return _UNAVAILABLE
    if given.base:
        return 0
    if given.screenshots:
        pictures.FOLDER.mkdir(parents=True, exist_ok=True)
        for path in asyncio.run(pictures.take()):
            sys.stdout.write(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KiB\n")
        return 0
    tests = [sys.executable, "-m", "pytest", "-n", "0", "e2e/browser", *more]
    return _run("make", "page", "CHECK=1") or _run(*tests)


def _install(*, needs_npm: bool) -> None:
    try:
        program()
    except BrowserMissing:
        debian.installed("chromium")
    if needs_npm:
        debian.installed("npm")
        if _run("make", "--no-print-directory", "page-packages"):
            raise debian.Unavailable("npm cannot install the packages of the page (see above)")


def _run(*command: str) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
