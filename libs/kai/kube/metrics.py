"""What we ask of the API server, counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kai.kube.ranks import Rank


class RequestMetrics:
    """Requests by verb, resource (with subresource) and HTTP code; ``error`` where there was no answer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kai_api_requests",
            "Requests to the API server",
            ("verb", "resource", "code"),
            registry=registry,
        )
        #: The same under the name that all of Kubernetes' clients give it.
        self._by_host = Counter(
            "rest_client_requests",
            "Requests by HTTP method, host of the API server and HTTP code",
            ("code", "method", "host"),
            registry=registry,
        )
        self.retries = Counter(
            "kai_api_request_retries",
            "Requests to the API server that had to be sent again",
            ("verb", "resource"),
            registry=registry,
        )
        self.duration = Histogram(
            "kai_api_request_duration_seconds",
            "Time to a whole answer of the API server, watches left out",
            ("verb", "resource"),
            buckets=(0.005, 0.02, 0.1, 0.5, 2.0, 10.0),
            registry=registry,
        )
        self.relists = Counter(
            "kai_api_relists",
            "Times a watch had to start again from a whole list, the first one left out",
            ("resource",),
            registry=registry,
        )
        self.watch_events = Counter(
            "kai_api_watch_events", "Events received by watches", ("resource",), registry=registry
        )
        self.objects = Gauge(
            "kai_api_watched_objects", "Objects known by watches", ("resource",), registry=registry
        )

        self.writes = WriteMetrics(registry)

    def answered(self, verb: str, resource: str, code: str, *, method: str, host: str) -> None:
        """Count one attempt."""
        self.requests.labels(verb, resource, code).inc()
        self._by_host.labels(code, method, host).inc()

    def retried(self, verb: str, resource: str) -> None:
        """Count one repetition."""
        self.retries.labels(verb, resource).inc()

    @contextmanager
    def timed(self, verb: str, resource: str) -> Iterator[None]:
        """Measure one attempt."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.duration.labels(verb, resource).observe(time.perf_counter() - started)


class WriteMetrics:
    """Writes that wait and that are under way, by rank; Leases are no part of that."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge(
            "kai_api_writes_waiting",
            "Writes that wait for a place, by rank",
            ("rank",),
            registry=registry,
        )
        self._flying = Gauge(
            "kai_api_writes_in_flight",
            "Writes that are under way, by rank",
            ("rank",),
            registry=registry,
        )
        self._limit = Gauge("kai_api_write_limit", "Writes that may be under way at once", registry=registry)
        waited = Histogram(
            "kai_api_write_wait_seconds",
            "Time that a write waited before it was sent first, by rank",
            ("rank",),
            buckets=(0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0),
            registry=registry,
        )
        refused = Counter(
            "kai_api_writes_refused",
            "Statuses and news that were not sent, since too many waited",
            ("rank",),
            registry=registry,
        )
        self.joined = Counter(
            "kai_api_writes_joined",
            "Statuses that were sent with an older one that waited",
            registry=registry,
        )
        ranks = [rank for rank in Rank if rank is not Rank.LEASE]
        self.waited: dict[Rank, Histogram] = {rank: waited.labels(rank.name.lower()) for rank in ranks}
        # A rate of what begins with its first case does not know that one.
        self.refused: dict[Rank, Counter] = {
            rank: refused.labels(rank.name.lower()) for rank in ranks if rank >= Rank.STATUS
        }

    def watch(
        self, waiting: Mapping[Rank, Sized], flying: Mapping[Rank, int], limit: Callable[[], int]
    ) -> None:
        """Tell what these say whenever somebody asks."""
        for rank in waiting:
            name = rank.name.lower()
            self._waiting.labels(name).set_function(lambda rank=rank: len(waiting[rank]))  # type: ignore[misc]
            self._flying.labels(name).set_function(lambda rank=rank: flying[rank])  # type: ignore[misc]
        self._limit.set_function(limit)
