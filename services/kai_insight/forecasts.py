"""Of the forecasts that people were told, how many held. Kept in memory: who leads next begins anew.

``p50`` and ``p90`` hold where the pod group had started by then. That is decided once it starts, or the time
is over. A pod group that is gone before says nothing of a time that was not over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kai.history.records import AnyRecord, Decision, Run
from kai_insight.decisions import GONE
from kai_insight.metrics import ForecastMetrics

#: Forecasts that are not decided yet; what more are told are not kept.
MOST: Final = 10_000
#: Names of Kubernetes are not longer, a namespace and a slash before them.
LONGEST_KEY: Final = 320
#: Kubernetes tells the binding of a pod in whole seconds, and whoever asks has a clock of his own.
_ROUNDED_SECONDS: Final = 1.0
#: A start is told a moment after it.
_TOLD_SECONDS: Final = 30.0
#: A forecast is told when it is worked out, which takes that long at most.
_OLDEST_SECONDS: Final = 300.0

P50: Final = "p50"
P90: Final = "p90"


class InvalidForecast(ValueError):
    """It cannot be kept; the message says why."""


@dataclass(slots=True)
class _Told:
    at: float
    #: By quantile, the Unix seconds that are not decided yet.
    until: dict[str, float]


@dataclass(slots=True)
class Tally:
    """Forecasts that are decided, and those of them that held, by quantile."""

    decided: dict[str, int] = field(default_factory=lambda: {P50: 0, P90: 0})
    held: dict[str, int] = field(default_factory=lambda: {P50: 0, P90: 0})


class Forecasts:
    """What was told of pod groups that have not started yet, and what came of what was told before."""

    def __init__(self, metrics: ForecastMetrics, *, now: Callable[[], float] = time.time) -> None:
        self._metrics = metrics
        self._now = now
        self._told: dict[str, _Told] = {}
        self.tally = Tally()

    def keep(self, group: str, *, at: float, seconds: dict[str, float]) -> None:
        """A forecast was told of a pod group (``namespace/name``): seconds by quantile, from ``at`` on.

        Of a group that is asked about again what was told first counts, so that who asks often counts once.

        Raises:
            InvalidForecast: it is none.
        """
        if not 3 <= len(group) <= LONGEST_KEY:
            raise InvalidForecast("a pod group is a namespace and a name")
        if not all(math.isfinite(each) and each >= 0 for each in (at, *seconds.values())):
            raise InvalidForecast("times of a forecast are numbers that are not negative")
        now = self._now()
        self._metrics.told.inc()
        self._overdue(now)
        if group not in self._told and len(self._told) < MOST and seconds:
            at = min(max(at, now - _OLDEST_SECONDS), now)
            self._told[group] = _Told(at, {name: at + each for name, each in seconds.items()})

    def look(self, record: AnyRecord) -> None:
        """Take in what happened."""
        if isinstance(record, Run):
            key = f"{record.namespace}/{record.pod_group}"
            told = self._told.get(key)
            if told is not None and record.began >= told.at - _ROUNDED_SECONDS:
                self._decide(key, told, began=record.began, over=math.inf)
        elif isinstance(record, Decision) and record.outcome == GONE:
            key = f"{record.namespace}/{record.pod_group}"
            told = self._told.get(key)
            if told is not None:
                self._decide(key, told, began=math.inf, over=record.at)

    def _overdue(self, now: float) -> None:
        for key, told in list(self._told.items()):
            self._decide(key, told, began=math.inf, over=now - _TOLD_SECONDS, gone=False)

    def _decide(self, key: str, told: _Told, *, began: float, over: float, gone: bool = True) -> None:
        """It began then; what was to be before ``over`` is decided. One that is gone is not waited for."""
        for name, until in list(told.until.items()):
            if until < over:
                held = began <= until
                self.tally.decided[name] += 1
                self.tally.held[name] += held
                self._metrics.decided(name, held=held)
                del told.until[name]
        if gone or not told.until:
            del self._told[key]
