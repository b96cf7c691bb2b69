"""``make hostile``, or ``python -m e2e.hostile``: a tenant does his worst, and nobody may notice."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

import structlog
from rich.console import Console

from e2e.hostile.run import Options, siege
from e2e.soak import report


def main() -> int:
    """Besiege; exit status 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="of attacks; clearing away takes some more")
    parser.add_argument("--seed", type=int, default=1, help="of the plan: the same one, the same attacks")
    parser.add_argument("--objects", type=int, default=5000, help="that the tenant makes")
    parser.add_argument("--out", type=Path, default=Path("hostile-report"), help="folder of report and logs")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up, to be looked at")
    options = parser.parse_args()
    screen = Console()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )  # of our own client
    options.out.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(
        siege(
            Options(
                minutes=options.minutes,
                seed=options.seed,
                objects=options.objects,
                folder=options.out.absolute(),
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
