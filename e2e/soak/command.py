"""The command line of what is run on a cluster and judged from outside, and how it ends."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog
from rich.console import Console

from e2e.soak import report
from e2e.soak.report import Report

Say = Callable[[str], None]


def parser(program: str, text: str | None, *, minutes: float, of: str) -> argparse.ArgumentParser:
    """Arguments that all have: how long, which plan, where to, and whether the cluster stays."""
    found = argparse.ArgumentParser(prog=f"python -m e2e.{program}", description=text)
    found.add_argument(
        "--minutes", type=float, default=minutes, help=f"of {of}; clearing away takes some more"
    )
    found.add_argument("--seed", type=int, default=1, help="of the plan: the same one, the same deeds")
    found.add_argument(
        "--out", type=Path, default=Path(f"{program}-report"), help="folder of the report and the logs"
    )
    found.add_argument("--keep", action="store_true", help="leave the cluster up, to be looked at")
    return found


def carry_out(
    run: Callable[[Say], Coroutine[Any, Any, Report]], out: Path, *, told: int = logging.ERROR
) -> int:
    """Run it, and tell what it found; exit status 1 if that is anything. ``told``: of our client's log.

    Whoever ends it early, by Ctrl-C or ``kill``, gets no report, and no cluster that goes on.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen = Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(told))
    out.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(run(lambda text: screen.print(text, highlight=False, markup=False)))
    report.write(found, out)
    report.show(found, screen)
    screen.print(f"report, journal, picture and logs: {out}", highlight=False)
    return 1 if found.findings else 0
