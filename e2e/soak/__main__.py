"""``make soak``, or ``python -m e2e.soak``: a cluster under random life and trouble, judged from outside."""

from __future__ import annotations

import sys

from e2e.soak import command
from e2e.soak.run import Options, soak


def main() -> int:
    """Soak; exit status 1 if anything was found."""
    parser = command.parser("soak", __doc__, minutes=30, of="life")
    parser.add_argument("--no-kills", action="store_true", help="no process is killed, and no answer fails")
    given = parser.parse_args()
    options = Options(
        minutes=given.minutes,
        seed=given.seed,
        folder=given.out.absolute(),
        kills=not given.no_kills,
        keep=given.keep,
    )
    return command.carry_out(lambda say: soak(options, say), given.out)


if __name__ == "__main__":
    sys.exit(main())
