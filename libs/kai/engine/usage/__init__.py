"""Time-based fair share: how much of the cluster each queue used in a window of time.

Pure functions of recorded samples, wherever they come from::

    params = UsageParams.parse(config["usageParams"])                  # InvalidUsageParams names the field
    since = window_start(params, now)                                  # read no samples older than this
    used_shares(queues, capacity, params, now, bucket_seconds=300)     # queue -> (CPU, memory, GPU) in 0..1
    staleness(params, fetched_at, now)                                 # a warning, or None

``queues`` and ``capacity`` hold buckets: anything with ``start`` (Unix seconds) and ``amounts`` (a triple of
amount times seconds). All three window types work so. For an external Prometheus :func:`prometheus_query`
gives the instant query that means the same.
"""

from kai.engine.usage.params import InvalidUsageParams, UsageParams, WindowType
from kai.engine.usage.window import prometheus_query, staleness, used_shares, window_start

__all__ = [
    "InvalidUsageParams",
    "UsageParams",
    "WindowType",
    "prometheus_query",
    "staleness",
    "used_shares",
    "window_start",
]
