"""``python3 -m e2e.gate [--gone SECONDS]``: run the stages of the gate; it exits with 1 when one fails."""

from __future__ import annotations

import argparse
import sys

from e2e.gate import changes, processes
from e2e.gate.budget import Gate
from e2e.gate.stages import STAGES


def main() -> int:
    """Run the stages."""
    parser = argparse.ArgumentParser(prog="python3 -m e2e.gate", description="Run the stages of the gate.")
    parser.add_argument(
        "--gone", type=float, default=0.0, metavar="SECONDS", help="time that was spent before"
    )
    gone = parser.parse_args().gone
    return 0 if Gate(STAGES, processes.run, changes=changes.recent(), gone=gone / 60).decide() else 1


if __name__ == "__main__":
    sys.exit(main())
