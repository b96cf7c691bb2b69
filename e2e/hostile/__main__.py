"""``make hostile``, or ``python -m e2e.hostile``: a tenant does his worst, and nobody may notice."""

from __future__ import annotations

import logging
import sys

from e2e.hostile.run import Options, siege
from e2e.soak import command


def main() -> int:
    """Besiege; exit status 1 if anything was found."""
    parser = command.parser("hostile", __doc__, minutes=20, of="attacks")
    parser.add_argument("--objects", type=int, default=5000, help="that the tenant makes")
    given = parser.parse_args()
    options = Options(
        minutes=given.minutes,
        seed=given.seed,
        objects=given.objects,
        folder=given.out.absolute(),
        keep=given.keep,
    )
    return command.carry_out(lambda say: siege(options, say), given.out, told=logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
