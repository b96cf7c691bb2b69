"""What the command line lets its libraries say: nothing, unless somebody asks to see it."""

from __future__ import annotations

import logging
import os

from kai.observe import LogLevels, ObserveSettings, configure


def configure_logs(*, verbose: bool) -> None:
    """Keep log lines out of the output; with ``verbose`` they all go to standard error.

    What matters to the user is told by the command itself, in a sentence of its own.
    """
    level = logging.DEBUG if verbose else logging.CRITICAL
    configure(service="kai", settings=ObserveSettings(levels=LogLevels(level), json=False))
    if not verbose:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes past every logger of Python's
