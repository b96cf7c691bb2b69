"""RFC 3339 times and durations, as seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from kai.model import duration
from kai.model.remembered import forgettable

#: What annotations say to have been further in the future is not believed, or it would count for ever.
CLOCK_SKEW_SECONDS: Final = 600.0
#: Longer texts are no times, and none to remember.
_LONGEST: Final = 40
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def seconds(text: str | None) -> float:
    """Unix seconds of an RFC 3339 time, of UTC where it names no zone; 0 for none that can be read."""
    return _seconds(text) if text and len(text) <= _LONGEST else 0.0


@forgettable
@lru_cache(maxsize=65536)
def _seconds(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def remembered() -> int:
    """How many texts are remembered with their times."""
    return _seconds.cache_info().currsize


@forgettable
@lru_cache(maxsize=4096)
def rfc3339(now: float) -> str:
    """A time as Kubernetes writes it, in whole seconds; none is before 1970 or after the year 9999."""
    return datetime.fromtimestamp(min(max(now, 0.0), _LAST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasting(text: str | None, *, default: float | None = None) -> float | None:
    """A duration in seconds; ``default`` for none or one that cannot be read."""
    if not text:
        return default
    try:
        return duration.parse(text)
    except duration.InvalidDuration:
        return default
