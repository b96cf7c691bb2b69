"""Cron expressions of usage windows and of jobs: the last time one was due, in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {
    name: at
    for at, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS: Final = {name: at for at, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
#: A leap day on a given weekday is due every 28 years, or 40 around a century that is not a leap year.
_LONGEST_SEARCH_DAYS: Final = 366 * 41


class InvalidCron(ValueError):
    """The text is not a cron expression, or one that is never due."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(
            f"{text!r} is not a cron expression: {problem}; write minute, hour, day of month, month and"
            " day of week, for example '0 0 * * 1'"
        )


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A parsed expression. With both days given, either makes a day due, as cron has it."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    @classmethod
    def parse(cls, text: str) -> CronSchedule:
        """Parse five fields or a macro such as ``@daily``.

        Raises:
            InvalidCron: a field is wrong, or no day ever fits.
        """
        fields = _MACROS.get(text.strip().lower(), text).split()
        if len(fields) != 5:
            raise InvalidCron(text, f"it has {len(fields)} fields, not 5")
        minutes, hours, days, months, weekdays = (
            _field(text, field, low, high, names)
            for field, (low, high, names) in zip(
                fields, ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 7, _DAYS)), strict=True
            )
        )
        schedule = cls(
            minutes=tuple(sorted(minutes, reverse=True)),
            hours=tuple(sorted(hours, reverse=True)),
            days=frozenset(days),
            months=frozenset(months),
            weekdays=frozenset(day % 7 for day in weekdays),
            any_day=fields[2][0] in "*?",
            any_weekday=fields[4][0] in "*?",
        )
        if schedule._last_day(date(2100, 1, 1)) is None:
            raise InvalidCron(text, "no day is ever due")
        return schedule

    def previous(self, now: float) -> float:
        """The last time due at or before ``now`` (both Unix seconds)."""
        moment = datetime.fromtimestamp(now, UTC)
        today = moment.date()
        if self._is_due(today):
            for hour in self.hours:
                for minute in self.minutes:
                    if (hour, minute) <= (moment.hour, moment.minute):
                        return _timestamp(today, hour, minute)
        day = self._last_day(today - timedelta(days=1))
        assert day is not None
        return _timestamp(day, self.hours[0], self.minutes[0])

    def _last_day(self, day: date) -> date | None:
        for _ in range(_LONGEST_SEARCH_DAYS):
            if self._is_due(day):
                return day
            day -= timedelta(days=1)
        return None

    def _is_due(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_day and by_weekday
        return by_day or by_weekday


def _timestamp(day: date, hour: int, minute: int) -> float:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp()


def _field(text: str, field: str, low: int, high: int, names: Mapping[str, int]) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(text, step_text, {}) if slash else 1
        if span in ("*", "?"):
            first, last = low, high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(text, first_text, names)
            last = _number(text, last_text, names) if dash else (high if slash else first)
        if not (low <= first <= last <= high) or step < 1:
            raise InvalidCron(text, f"{part!r} is not within {low}-{high}")
        values.update(range(first, last + 1, step))
    return values


def _number(text: str, part: str, names: Mapping[str, int]) -> int:
    if part.lower() in names:
        return names[part.lower()]
    if not part.isdecimal():
        raise InvalidCron(text, f"{part!r} is not a number")
    return int(part)
