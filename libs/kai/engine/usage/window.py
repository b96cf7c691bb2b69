"""Summing samples over a window, the older the less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kai.config.usage_params import UsageParams, WindowType
from kai.model import duration
from kai.model.arrays import Floats
from kai.model.decisions import ResourceVector


class Series(Protocol):
    """What was used in stretches of time of equal length: CPU, memory and GPUs, each times seconds."""

    @property
    def start(self) -> Floats:
        """When each stretch begins, in Unix seconds; shape ``[stretches]``."""

    @property
    def amounts(self) -> Floats:
        """Amounts times seconds; shape ``[stretches, 3]``."""


def window_start(params: UsageParams, *, now: float) -> float:
    """Where the window begins that ends ``now``, both in Unix seconds; never later than ``now``.

    A tumbling window whose first start is yet to come is empty.
    """
    match params.window_type:
        case WindowType.SLIDING:
            return now - params.window_size
        case WindowType.TUMBLING:
            assert params.tumbling_start is not None
            if params.tumbling_start >= now:
                return now
            return now - (now - params.tumbling_start) % params.window_size
        case WindowType.CRON:
            assert params.cron is not None
            return params.cron.previous(now)


def used_shares(
    queues: Mapping[str, Series],
    capacity: Series,
    *,
    params: UsageParams,
    now: float,
    bucket_seconds: float,
) -> dict[str, ResourceVector]:
    """The part of the cluster's capacity that each queue used in the window, by resource, in 0..1.

    A bucket that lies across the start of the window counts by the part within. A resource of which the
    cluster had none counts as unused. ``now`` is in Unix seconds.
    """
    since = window_start(params, now=now)
    total = _weighted(capacity, params, since, now, bucket_seconds)
    shares: dict[str, ResourceVector] = {}
    for queue, buckets in queues.items():
        used = _weighted(buckets, params, since, now, bucket_seconds)
        share = np.divide(used, total, out=np.zeros(3), where=total > 0)
        cpu, memory, gpu = np.clip(share, 0.0, 1.0).tolist()
        shares[queue] = (cpu, memory, gpu)
    return shares


def _weighted(series: Series, params: UsageParams, since: float, now: float, bucket_seconds: float) -> Floats:
    """The sum of the buckets, each by its part within the window and by its age."""
    start = series.start
    end = np.minimum(start + bucket_seconds, now)
    length = end - start
    within = np.clip(end - np.maximum(start, since), 0.0, None)
    weight = np.divide(within, length, out=np.zeros_like(within), where=length > 0)
    if params.half_life is not None:
        middle = end - within / 2
        weight *= 0.5 ** ((now - middle) / params.half_life)
    total: Floats = weight @ series.amounts
    return total


def staleness(params: UsageParams, *, fetched_at: float | None, now: float) -> str | None:
    """What is wrong with the age of the data, in words; None if nothing is. Times are Unix seconds.

    ``fetched_at`` is None while nothing was read.
    """
    if fetched_at is None:
        return "no usage data yet: time-based fair share treats all queues as if they had used nothing"
    age = now - fetched_at
    if age <= params.staleness_period:
        return None
    limit = duration.render(params.staleness_period)
    text = f"usage data is {duration.render(round(age))} old (allowed are {limit})"
    if outlived(params, fetched_at=fetched_at, now=now):
        return f"{text}, and its window is over: all queues count as if they had used nothing"
    return f"{text}: the last known is used"


def outlived(params: UsageParams, *, fetched_at: float, now: float) -> bool:
    """Whether nothing of the window that was read at ``fetched_at`` is left in the one that ends ``now``.

    Then what was read says nothing any more. Data that is not out of date never counts as outlived. Times are
    Unix seconds.
    """
    return now - fetched_at > params.staleness_period and window_start(params, now=now) >= fetched_at
