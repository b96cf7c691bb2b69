"""``make soak``, or ``python -m e2e.soak``: a cluster under random life and trouble, judged from outside."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

import structlog
from rich.console import Console

from e2e.soak import report
from e2e.soak.run import Options, soak


def main() -> int:
    """Soak; exit status 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of life; coming to rest takes some more")
    parser.add_argument("--seed", type=int, default=1, help="of the plan: the same one, the same deeds")
    parser.add_argument(
        "--out", type=Path, default=Path("soak-report"), help="folder of the report and the logs"
    )
    parser.add_argument("--no-kills", action="store_true", help="no process is killed, and no answer fails")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up, to be looked at")
    options = parser.parse_args()
    screen = Console()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )  # of our own client
    options.out.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(
        soak(
            Options(
                minutes=options.minutes,
                seed=options.seed,
                folder=options.out.absolute(),
                kills=not options.no_kills,
                keep=options.keep,
            ),
            lambda text: screen.print(text, highlight=False, markup=False),
        )
    )
    report.write(found, options.out)
    report.show(found, screen)
    screen.print(f"report, journal, picture and logs: {options.out}", highlight=False)
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
