"""RFC 3339 times and durations, as seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from kai.model import duration


@lru_cache(maxsize=65536)
def seconds(text: str | None) -> float:
    """Unix seconds of an RFC 3339 time; 0 for none or one that cannot be read."""
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


@lru_cache(maxsize=4096)
def rfc3339(now: float) -> str:
    """A time as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasting(text: str | None, *, default: float | None = None) -> float | None:
    """A duration in seconds; ``default`` for none or one that cannot be read."""
    if not text:
        return default
    try:
        return duration.parse(text)
    except duration.InvalidDuration:
        return default
