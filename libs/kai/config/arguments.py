"""Arguments of plugins: each is declared once, and decoded once, when the configuration is loaded.

What a file says is text. A plugin that takes arguments declares a subclass of :class:`Arguments`, whose
fields say how each is spelled, which values it takes, and what it means; the documentation is held against
the same declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Generic, Self, TypeVar

from kai.model import duration, spelling

_ARGUMENT: Final = "argument"
#: What Go's ``strconv.ParseBool`` takes.
_TRUE: Final = ("true", "True", "TRUE", "t", "T", "1")
_FALSE: Final = ("false", "False", "FALSE", "f", "F", "0")

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class ArgumentKind(Generic[T]):
    """Which texts an argument takes, in words, and what they mean; reading another raises a ValueError.

    ``words`` are all the texts there are, where they can be counted; else ``pattern``, if there is one, is an
    expression that every text matches. The chart's schema refuses others by them.
    """

    allowed: str
    read: Callable[[str], T]
    words: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument: its spellings, the first of which is the usual one, its values and its meaning."""

    spellings: tuple[str, ...]
    kind: ArgumentKind[Any]
    default: str
    meaning: str


def argument(*spellings: str, kind: ArgumentKind[T], default: str = "", meaning: str) -> T:
    """A field of :class:`Arguments`; ``default`` is written as users would, empty for nothing."""
    declared = Argument(spellings=spellings, kind=kind, default=default, meaning=meaning)
    value: T = field(default=kind.read(default), metadata={_ARGUMENT: declared})
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a plugin was told; the defaults where it was told nothing."""

    @classmethod
    def declared(cls) -> dict[str, Argument]:
        """The arguments by field."""
        return {each.name: each.metadata[_ARGUMENT] for each in fields(cls)}

    @classmethod
    def decode(cls, given: Mapping[str, str], *, where: str) -> Self:
        """Read what a file says; an empty text means the default.

        Raises:
            ConfigError: an argument is not known, cannot be read, or is given in two spellings.
        """
        by_spelling = {spelling: name for name, each in cls.declared().items() for spelling in each.spellings}
        values: dict[str, Any] = {}
        given_as: dict[str, str] = {}
        for key, text in given.items():
            name = by_spelling.get(key)
            if name is None:
                raise ConfigError(f"{where}: {spelling.unknown('argument', key, _usual(cls))}")
            if name in given_as:
                raise ConfigError(f"{where}: {given_as[name]!r} and {key!r} are the same argument; give one")
            given_as[name] = key
            if text:
                values[name] = _read(cls.declared()[name], text, f"{where}: argument {key!r}")
        return cls(**values)


def _usual(kind: type[Arguments]) -> list[str]:
    return [each.spellings[0] for each in kind.declared().values()]


def _read(declared: Argument, text: str, where: str) -> Any:
    try:
        return declared.kind.read(text)
    except ValueError as error:
        raise ConfigError(f"{where} is {text!r}; it must be {declared.kind.allowed}") from error


# --- kinds -------------------------------------------------------------------------------------------
def one_of(choices: type[Choice]) -> ArgumentKind[Choice]:
    """One of the words of an enumeration."""
    return ArgumentKind(f"one of: {', '.join(choices)}", choices, words=tuple(map(str, choices)))


def number(*, least: float) -> ArgumentKind[float]:
    """A finite number that is not less than a bound."""

    def read(text: str) -> float:
        value = float(text)
        if not math.isfinite(value) or value < least:
            raise ValueError(text)
        return value

    pattern = r"^[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$"
    return ArgumentKind(f"a number of at least {least:g}", read, pattern=pattern)


def seconds() -> ArgumentKind[float]:
    """A duration that is not negative; empty for none."""

    def read(text: str) -> float:
        value = duration.parse(text or "0s")
        if value < 0:
            raise ValueError(text)
        return value

    pattern = "^([0-9.]+(ns|us|µs|ms|[smhdwy]))*$|^0$"
    return ArgumentKind("a duration such as 90s, 1h30m or 2d, not negative", read, pattern=pattern)


def switch() -> ArgumentKind[bool]:
    """True or false, as Go reads them."""

    def read(text: str) -> bool:
        if text not in _TRUE and text not in _FALSE:
            raise ValueError(text)
        return text in _TRUE

    return ArgumentKind("true or false", read, words=(*_TRUE, *_FALSE))


def names() -> ArgumentKind[tuple[str, ...]]:
    """Names with commas between them."""

    def read(text: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in text.split(",") if name.strip())

    return ArgumentKind("names with commas between them", read)
