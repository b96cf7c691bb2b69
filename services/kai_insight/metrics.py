"""What monitoring knows of insight."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from kai.history.records import RECORDS, AnyRecord

#: Tables without the prefix that tells them from other tables of a database.
_KINDS: Final = {kind: kind.table.removeprefix("kai_") for kind in RECORDS}


class InsightMetrics:
    """All metrics of insight, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Gauge("kai_history_store_up", "Whether the store answers", registry=registry)
        self.failures = Counter(
            "kai_history_store_failures", "Questions that the store did not answer", registry=registry
        )
        self.waiting = Gauge(
            "kai_history_records_waiting", "Records that wait to be written", registry=registry
        )
        self.lost = Counter(
            "kai_history_records_lost",
            "Records that there was no room for while the store was away",
            registry=registry,
        )
        self._written = Counter(
            "kai_history_records", "Records written, by table", ("table",), registry=registry
        )
        self._seen = Gauge(
            "kai_history_written_until_seconds",
            "Unix time until which everything is written",
            registry=registry,
        )
        self.size = Gauge("kai_history_store_bytes", "Bytes that the store takes", registry=registry)
        self.growth = Gauge(
            "kai_history_store_bytes_per_day", "Bytes that a day takes, by what there is", registry=registry
        )
        for kind in _KINDS.values():
            self._written.labels(kind)

    def wrote(self, records: Iterable[AnyRecord], *, seen: float) -> None:
        """Records were written; until when things were looked at."""
        for kind, number in Counts(_KINDS[type(record)] for record in records).items():
            self._written.labels(kind).inc(number)
        self._seen.set(seen)

    def leave(self) -> None:
        """A term is over: how the store does is another process's to tell. What was counted stays."""
        for told in (self.answers, self.waiting, self._seen, self.size, self.growth):
            told.set(0)


class ForecastMetrics:
    """Of forecasts that people were told, how many held."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.told = Counter("kai_forecasts_told", "Forecasts that people were told", registry=registry)
        self._decided = Counter(
            "kai_forecasts_decided",
            "Forecasts of which it is known whether they held, by quantile",
            ("quantile",),
            registry=registry,
        )
        self._held = Counter(
            "kai_forecasts_held",
            "Forecasts by whose time the pod group had started, by quantile",
            ("quantile",),
            registry=registry,
        )
        for quantile in ("p50", "p90"):
            self._decided.labels(quantile)
            self._held.labels(quantile)

    def decided(self, quantile: str, *, held: bool) -> None:
        """It is known whether a forecast held."""
        self._decided.labels(quantile).inc()
        self._held.labels(quantile).inc(held)


class VerdictMetrics:
    """Of pod groups that wait, and why."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._groups = Gauge(
            "kai_verdict_pod_groups",
            "Pod groups that wait, by what has to happen before they start and the reason",
            ("verdict", "code"),
            registry=registry,
        )
        self._known: set[tuple[str, str]] = set()

    def know(self, groups: Counts[tuple[str, str]]) -> None:
        """How many wait, by verdict and code; what was there before and is no more stays with 0."""
        self._known |= set(groups)
        for verdict, code in self._known:
            self._groups.labels(verdict, code).set(groups[verdict, code])


class ReplayMetrics:
    """Of cycles that are recorded, and decided again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.recorded = Counter("kai_replay_recorded_cycles", "Cycles that were recorded", registry=registry)
        self.lost = Counter(
            "kai_replay_lost_cycles",
            "Cycles that were not recorded, since the store was away for too long",
            registry=registry,
        )
        self.size = Gauge("kai_replay_bytes", "Bytes of cycles that are recorded", registry=registry)
        self.replayed = Counter(
            "kai_replay_cycles", "Cycles that were decided again and compared", registry=registry
        )
        self.differing = Counter(
            "kai_replay_differences",
            "Cycles that were decided otherwise when decided again, by shard",
            ("shard",),
            registry=registry,
        )
        self.skipped = Counter(
            "kai_replay_skipped_cycles",
            "Cycles that were not decided again, since too many waited or one before them differed",
            registry=registry,
        )

    def leave(self) -> None:
        """A term is over: what is kept is another process's to tell."""
        self.size.set(0)
