"""Durations as users write them: Go's ``1h30m`` and, where days are allowed, Prometheus' ``1w2d``.

A duration is a sequence of numbers with units, in any order, added up. A day is 24 hours, a week 7 days,
a year 365 days: calendars do not matter here.
"""

import re
from functools import lru_cache
from typing import Final

from kai.model.remembered import forgettable

_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_CALENDAR: Final = {"d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|[smhdwy])")
#: As long as a duration of Go may be.
LONGEST_SECONDS: Final = 2**63 / 1e9
_LONGEST: Final = 64


class InvalidDuration(ValueError):
    """The text is not a duration, or one that is too long (more than 292 years, or 64 characters)."""

    def __init__(self, text: str, *, days: bool) -> None:
        units = "ms, s, m, h, d, w or y" if days else "ms, s, m or h"
        example = "1h30m or 2d" if days else "1h30m"
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        super().__init__(f"{shown!r} is not a duration; write numbers with {units}, for example {example}")


@forgettable
@lru_cache(maxsize=4096)
def parse(text: str, *, days: bool = True) -> float:
    """The length in seconds; negative with a leading minus sign, and ``0`` needs no unit.

    With ``days=False`` only the units of Go's durations are accepted, which is what a Kubernetes field of
    type Duration takes.

    Raises:
        InvalidDuration: the text is not a duration.
    """
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return 0.0
    if len(body) > _LONGEST:
        raise InvalidDuration(text, days=days)
    seconds = 0.0
    end = 0
    for part in _PART.finditer(body):
        unit = _SECONDS.get(part[2]) or (_CALENDAR[part[2]] if days and part[2] in _CALENDAR else None)
        if unit is None or part.start() != end:
            raise InvalidDuration(text, days=days)
        seconds += float(part[1]) * unit
        end = part.end()
    if end == 0 or end != len(body) or seconds > LONGEST_SECONDS:
        raise InvalidDuration(text, days=days)
    return -seconds if text[0] == "-" else seconds


def render(seconds: float) -> str:
    """The duration as Go prints it: ``1h30m0s``, ``500ms``, ``0s``; rounded to whole microseconds."""
    micros = round(abs(seconds) * 1e6)
    sign = "-" if seconds < 0 and micros else ""
    if micros < 1_000_000:
        if micros == 0:
            return "0s"
        return f"{sign}{micros}µs" if micros < 1000 else f"{sign}{_plain(micros / 1000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_plain(rest / 1e6)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _plain(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")
