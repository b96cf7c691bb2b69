"""What fails beside deciding: it is cut off, counted, and told in the log once in a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import Counter

from kai.model.failures import FailedOver, described

#: The same failure is told with its traceback once in so long.
QUIET_SECONDS: Final = 600.0
#: A failure that did not come again for so long is over.
LASTING_SECONDS: Final = 120.0
_SHOWN: Final = 300

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Trouble:
    """One thing that fails."""

    reason: str
    times: int
    first: float
    last: float
    told: float


class Troubles:
    """Keeps failures of what others are told from those who are served. ``clock`` is monotonic."""

    def __init__(self, counter: Counter, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``counter`` has one label: what failed."""
        self._counter = counter
        self._clock = clock
        self._known: dict[str, _Trouble] = {}

    @contextmanager
    def cut_off(self, what: str, *, about: str = "") -> Iterator[None]:
        """Go on after the block even where it fails; ``about`` as for :meth:`note`."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (what is only told to others must not hurt anybody)
            self.note(what, error, about=about)

    def note(self, what: str, error: Exception, *, about: str = "") -> None:
        """Something failed, and was cut off.

        ``about`` names the object that it is about, where the failure does not
        (:class:`~kai.model.failures.FailedOver`).
        """
        now = self._clock()
        self._counter.labels(what).inc()
        reason = f"{about + ': ' if about else ''}{described(error)}"[:_SHOWN]
        known = self._known.get(what)
        if known is None or known.reason != reason or now - known.told >= QUIET_SECONDS:
            known_by = error.about if isinstance(error, FailedOver) else None
            _log.error("cut off", what=what, object=about or known_by, exc_info=error)
            told = now
        else:
            told = known.told
        first = known.first if known is not None else now
        times = known.times + 1 if known is not None else 1
        self._known[what] = _Trouble(reason, times, first, now, told)

    def summary(self) -> str | None:
        """What fails lately, in a line; None if nothing does."""
        now = self._clock()
        self._known = {what: each for what, each in self._known.items() if now - each.last < LASTING_SECONDS}
        parts = [
            f"{what} failed {each.times} times in {now - each.first:.0f} s, last with {each.reason}"
            for what, each in sorted(self._known.items())
        ]
        return "; ".join(parts) or None
