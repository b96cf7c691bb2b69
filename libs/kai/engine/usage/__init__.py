"""Time-based fair share: how much of the cluster each queue used in a window of time.

Pure functions of recorded samples, wherever they come from::

    params = UsageParams.parse(config["usageParams"])                  # kai.config; its error names the field
    since = window_start(params, now=now)                              # read no samples older than this
    used_shares(queues, capacity, params=params, now=now, bucket_seconds=300)  # by queue, parts in 0..1
    staleness(params, fetched_at=fetched_at, now=now)                  # a warning, or None

``queues`` and ``capacity`` hold buckets: arrays ``start`` (Unix seconds) and ``amounts`` (times seconds, in
three columns). All three window types work so. For a Prometheus :mod:`kai.engine.usage.prometheus` has the
queries that mean the same.
"""

from kai.engine.usage.window import outlived, staleness, used_shares, window_start

__all__ = ["outlived", "staleness", "used_shares", "window_start"]
