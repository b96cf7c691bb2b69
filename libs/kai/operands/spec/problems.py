"""What is wrong with an object, field by field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kai.model import spelling

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that cannot be used: its path, what is wrong with it, and what to write instead."""

    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field} {self.text}"


class InvalidSpec(ValueError):
    """An object cannot be used; ``problems`` has all that is wrong with it, the message too."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__(f"{name}: {'; '.join(map(str, self.problems))}")


@dataclass(frozen=True, slots=True)
class Place:
    """A field while it is read. What is found wrong below it is gathered in one list."""

    path: str
    problems: list[Problem] = field(default_factory=list)

    def below(self, key: str | int) -> Place:
        """A field of this field, or an element of it."""
        return Place(f"{self.path}[{key}]" if isinstance(key, int) else f"{self.path}.{key}", self.problems)

    def complain(self, text: str) -> None:
        """Say what is wrong here."""
        self.problems.append(Problem(self.path, text))

    def refuse(self, given: Any, allowed: str) -> None:
        """Say that a value is none of those that are allowed."""
        shown = repr(given)
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
        self.complain(f"is {shown}; it must be {allowed}")

    def unknown(self, key: object, known: Iterable[str], *, what: str = "field") -> None:
        """Say that there is no field of this name, and which is meant."""
        self.below(str(key)).complain(f"is not known: {spelling.unknown(what, str(key), known)}")
