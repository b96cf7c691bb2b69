"""What the command line lets its libraries say: nothing, unless somebody asks to see it."""

from __future__ import annotations

import logging
import os
import sys

#: What writes our log lines; a tenth of the time of a short command goes into importing it.
_WRITER = "structlog"


def configure_logs(*, verbose: bool) -> None:
    """Keep log lines out of the output; with ``verbose`` they all go to standard error.

    What matters to the user is told by the command itself, in a sentence of its own. A command that loads
    what writes lines has done so when this is called, so where it is not loaded nobody will write any.
    """
    logging.getLogger(__name__).setLevel(logging.DEBUG if verbose else logging.CRITICAL)
    if verbose or _WRITER in sys.modules:
        from kai.observe import LogLevels, ObserveSettings, configure

        level = logging.DEBUG if verbose else logging.CRITICAL
        configure(service="kai", settings=ObserveSettings(levels=LogLevels(level), json=False))
    else:
        logging.getLogger().handlers = [logging.NullHandler()]
    if not verbose:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes past every logger of Python's


def configure_loaded() -> None:
    """The same choice once more, by whoever has loaded what writes lines only since it was made."""
    configure_logs(verbose=logging.getLogger(__name__).isEnabledFor(logging.DEBUG))


def note(module: str, event: str, **values: str) -> None:
    """A line for those who asked to see them."""
    if logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
        import structlog

        structlog.get_logger(module).debug(event, **values)
