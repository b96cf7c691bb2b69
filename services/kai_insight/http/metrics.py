"""What monitoring knows of questions over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

#: Seconds: a question about a day, and one about a month of a busy cluster.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
#: What is asked for at paths that there are not.
ELSEWHERE: Final = "other"


class HttpMetrics:
    """Of requests by path; paths that do not exist are one."""

    def __init__(self, registry: CollectorRegistry, *, paths: Iterable[str]) -> None:
        self._requests = Counter(
            "kai_http_requests", "Questions over HTTP, by path and code", ("path", "code"), registry=registry
        )
        self._duration = Histogram(
            "kai_http_request_duration_seconds",
            "Time to answer a question over HTTP",
            ("path",),
            buckets=_BUCKETS,
            registry=registry,
        )
        for path in paths:  # a rate of what begins with its first case does not know that one
            self._requests.labels(path, "200")
            self._duration.labels(path)

    def answered(self, path: str, code: int, *, seconds: float) -> None:
        """A question was answered."""
        self._requests.labels(path, str(code)).inc()
        self._duration.labels(path).observe(seconds)
