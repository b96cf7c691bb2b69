"""Inputs of simulations: mappings whose keys are known, in whatever case they are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kai.model import spelling


class InvalidInput(ValueError):
    """An input cannot be simulated; the message names the place and what to write there."""


class Fields:
    """One mapping of an input. ``where`` names it in messages; empty for the whole input."""

    def __init__(self, value: Any, *, where: str, known: Sequence[str]) -> None:
        """Raises InvalidInput if it is no mapping, or has a key that nobody knows or that is there twice."""
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{where or 'the input'} is {value!r}; it must be a mapping of keys")
        self._where = where
        self._values: dict[str, Any] = {}
        by_folded = {name.casefold(): name for name in known}
        for key, each in value.items():
            name = by_folded.get(str(key).casefold())
            if name is None:
                place = f" in {where}" if where else ""
                raise InvalidInput(spelling.unknown("key", str(key), known, where=place))
            if name in self._values:
                raise InvalidInput(f"{self.place(name)} is there twice, in two spellings; say it once")
            self._values[name] = each

    def place(self, key: str) -> str:
        """How messages name a value."""
        return f"{self._where}.{key}" if self._where else key

    def has(self, key: str) -> bool:
        """Whether something is said."""
        return self._values.get(key) is not None

    def number(self, key: str, *, default: float, least: float = -math.inf) -> float:
        """A finite number that is not less than a bound."""
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise InvalidInput(f"{self.place(key)} is {value!r}; it must be a number")
        if value < least:
            raise InvalidInput(f"{self.place(key)} is {value}; it must be at least {least:g}")
        return float(value)

    def unlimited(self, key: str, *, default: float) -> float:
        """A number that is not negative, or -1 for no bound."""
        value = self.number(key, default=default)
        if value < 0 and value != -1:
            raise InvalidInput(f"{self.place(key)} is {value:g}; it must be at least 0, or -1 for no bound")
        return value

    def whole(self, key: str, *, default: int, least: int, most: int) -> int:
        """An integer within bounds."""
        value = self.number(key, default=default)
        if value != int(value) or not least <= value <= most:
            raise InvalidInput(
                f"{self.place(key)} is {value:g}; it must be an integer from {least} to {most}"
            )
        return int(value)

    def text(self, key: str) -> str:
        """A text; empty where nothing is said. YAML reads some texts as numbers or times."""
        value = self._values.get(key)
        if value is None:
            return ""
        if isinstance(value, datetime):
            return value.isoformat()
        if not isinstance(value, str | int):
            raise InvalidInput(f"{self.place(key)} is {value!r}; it must be a text")
        return str(value)

    def listed(self, key: str) -> Sequence[Any]:
        """A list; empty where nothing is said."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{self.place(key)} is {value!r}; it must be a list")
        return value

    def mapped(self, key: str) -> Mapping[Any, Any]:
        """A mapping whose keys are names; empty where nothing is said."""
        value = self._values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{self.place(key)} is {value!r}; it must be a mapping")
        return value

    def within(self, key: str, *, known: Sequence[str]) -> Fields:
        """A mapping within this one; an empty one where nothing is said."""
        return Fields(self.mapped(key), where=self.place(key), known=known)


def _is_finite(value: float) -> bool:
    """Whether it is a number to work with; an integer may have more digits than that."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def ordered(parents: Mapping[str, str]) -> list[str]:
    """Names with their parents before them, else in the order given.

    Raises:
        InvalidInput: somebody is an own ancestor.
    """
    found: dict[str, None] = {}
    for name in parents:
        line: list[str] = []
        while name in parents and name not in found:
            if name in line:
                raise InvalidInput(f"queue {name!r} is its own ancestor; change its parent")
            line.append(name)
            name = parents[name]
        found.update(dict.fromkeys(reversed(line)))
    return list(found)
