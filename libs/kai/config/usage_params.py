"""``usageParams`` of the scheduler's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kai.config.prometheus_params import InvalidExtraParam, PrometheusParams
from kai.model import duration, spelling
from kai.model.cron import CronSchedule

_WEEK: Final = 604_800.0
#: From where to look back: any time does, but always the same, as the answer must not change with the day.
_AROUND_2030: Final = 1_900_000_000.0
#: More than a year of months, and some weeks of days.
_WINDOWS_LOOKED_AT: Final = 32


class WindowType(StrEnum):
    """Over which time usage is summed."""

    #: The last ``windowSize``, at every moment.
    SLIDING = "sliding"
    #: Since the last multiple of ``windowSize`` after ``tumblingWindowStartTime``.
    TUMBLING = "tumbling"
    #: Since ``cronString`` was last due, in UTC.
    CRON = "cron"


class InvalidUsageParams(ValueError):
    """A field of ``usageParams`` cannot be used; the message names it."""

    def __init__(self, name: str, *, problem: str) -> None:
        super().__init__(f"usageParams.{name}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageParams:
    """Window and decay. Durations are seconds; times are Unix seconds."""

    window_type: WindowType = WindowType.SLIDING
    window_size: float = _WEEK
    #: Samples this old count half; None counts all the same.
    half_life: float | None = None
    #: Between two reads that succeed.
    fetch_interval: float = 60.0
    #: What was read longer ago is out of date; never less than the interval.
    staleness_period: float = 300.0
    #: For so long the first cycle waits for the first read.
    wait_timeout: float = 60.0
    tumbling_start: float | None = None
    cron: CronSchedule | None = None
    prometheus: PrometheusParams = field(default_factory=PrometheusParams)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> UsageParams:
        """Read the JSON form; what is absent has its default.

        Raises:
            InvalidUsageParams: a field is unknown, wrong, or missing for the window type.
        """
        unknown = sorted({str(key) for key in data} - set(FIELDS))
        if unknown:
            near = spelling.nearest(unknown[0], FIELDS)
            hint = f"; did you mean {near!r}?" if near else ";"
            raise InvalidUsageParams(
                unknown[0], problem=f"not known{hint} known are {', '.join(sorted(FIELDS))}"
            )
        values = {FIELDS[name][0]: _read(name, value) for name, value in data.items() if value is not None}
        params = cls(**values)
        params._check()
        return replace(params, staleness_period=max(params.staleness_period, params.fetch_interval))

    def _check(self) -> None:
        """What the fields demand of each other, and bounds."""
        missing = "must be set when windowType is"
        if self.window_type is WindowType.TUMBLING and self.tumbling_start is None:
            raise InvalidUsageParams("tumblingWindowStartTime", problem=f"{missing} tumbling")
        if self.window_type is WindowType.CRON and self.cron is None:
            raise InvalidUsageParams("cronString", problem=f"{missing} cron")
        for name, seconds in (("windowSize", self.window_size), ("fetchInterval", self.fetch_interval)):
            if seconds <= 0:
                raise InvalidUsageParams(name, problem="must be more than 0")
        for name, seconds in (("stalenessPeriod", self.staleness_period), ("waitTimeout", self.wait_timeout)):
            if seconds < 0:
                raise InvalidUsageParams(name, problem="must not be negative")


def _half_life(value: Any) -> float | None:
    seconds = duration.parse(str(value))
    return seconds if seconds > 0 else None


def _time(value: Any) -> float:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _seconds(value: Any) -> float:
    return duration.parse(str(value))


def _prometheus(value: Any) -> PrometheusParams:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is not a map")
    return PrometheusParams.parse(value)


def _cron(value: Any) -> CronSchedule | None:
    return CronSchedule.parse(str(value)) if value else None


#: By key: the field, and how its value is read.
FIELDS: Final[dict[str, tuple[str, Any]]] = {
    "windowType": ("window_type", WindowType),
    "windowSize": ("window_size", _seconds),
    "halfLifePeriod": ("half_life", _half_life),
    "fetchInterval": ("fetch_interval", _seconds),
    "stalenessPeriod": ("staleness_period", _seconds),
    "waitTimeout": ("wait_timeout", _seconds),
    "tumblingWindowStartTime": ("tumbling_start", _time),
    "cronString": ("cron", _cron),
    "extraParams": ("prometheus", _prometheus),
}


def _read(name: str, value: Any) -> Any:
    try:
        return FIELDS[name][1](value)
    except InvalidExtraParam as error:
        raise InvalidUsageParams(f"{name}.{error.key}", problem=error.problem) from None
    except (TypeError, ValueError) as error:
        allowed = ""
        if name == "windowType":
            allowed = f"; allowed are {', '.join(WindowType)}"
        raise InvalidUsageParams(name, problem=f"{error}{allowed}") from None


def longest_window(params: UsageParams) -> float:
    """The seconds that a window may last at most; of one that ends by the clock, as it was around 2030."""
    if params.window_type is not WindowType.CRON:
        return params.window_size
    assert params.cron is not None
    end, longest = _AROUND_2030, 0.0
    for _ in range(_WINDOWS_LOOKED_AT):
        start = params.cron.previous(end - 60)
        end, longest = start, max(longest, end - start)
    return longest
