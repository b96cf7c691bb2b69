"""Loading the modules of a process that is to live long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kai.collector import paused


@contextmanager
def of_a_service() -> Iterator[None]:
    """Import within this what a service is made of: it starts sooner so, and holds less.

    Modules stay, so collecting garbage meanwhile finds nothing; and structlog looks for rich only to draw
    tracebacks in colour, which no service does.
    """
    absent = "rich" not in sys.modules
    if absent:
        # The import system takes this as "there is none".
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        with paused(lasting=True):
            yield
    finally:
        if absent:
            del sys.modules["rich"]
