"""Questions to a Prometheus, or to whatever answers its HTTP interface."""

from kai.prometheus.client import PrometheusClient, Sample, shown, told
from kai.prometheus.errors import (
    PrometheusError,
    PrometheusUnavailable,
    QueryRefused,
    UnreadableAnswer,
)

__all__ = [
    "PrometheusClient",
    "PrometheusError",
    "PrometheusUnavailable",
    "QueryRefused",
    "Sample",
    "UnreadableAnswer",
    "shown",
    "told",
]
