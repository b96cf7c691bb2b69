"""How loud a program is: one level for all of it, and others for its parts.

A part is a module or a package by its dotted name, and everything below it: ``info,kai.kube=debug`` says
all of ``kai.kube`` and of nothing else. Libraries that log through the standard library are parts, too.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import Final

from kai.model import spelling

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_ALLOWED: Final = "allowed are debug, info, warning, error or a verbosity number"


class LevelError(ValueError):
    """Levels that cannot be understood; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class LogLevels:
    """The least level that is said, and by name of a part that of the part."""

    default: int = logging.INFO
    parts: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LogLevels:
        """Levels from ``LEVEL`` or ``LEVEL,PART=LEVEL,…``; without a level for all it is info.

        Raises:
            LevelError: a level or a part does not exist, or something is said twice.
        """
        default: int | None = None
        parts: dict[str, int] = {}
        for word in filter(None, (word.strip() for word in text.split(","))):
            part, equals, level = word.rpartition("=")
            if not equals:
                if default is not None:
                    raise LevelError(f"two levels for all; write one of them as PART={word}")
                default = _level(word)
                continue
            if part in parts:
                raise LevelError(f"{part} is there twice")
            _check_part(part)
            parts[part] = _level(level)
        if default is None and not parts:
            raise LevelError(_ALLOWED)
        return cls(logging.INFO if default is None else default, tuple(sorted(parts.items())))

    def of(self, name: str) -> int:
        """The level of a module: that of the nearest part around it."""
        around = [(len(part), level) for part, level in self.parts if f"{name}.".startswith(f"{part}.")]
        return max(around)[1] if around else self.default

    def __str__(self) -> str:
        words = [_name(self.default), *(f"{part}={_name(level)}" for part, level in self.parts)]
        return ",".join(words)


def _level(text: str) -> int:
    """A level by name, or a verbosity number: 4 and more is debug, less is info."""
    word = text.strip().lower()
    if word in LEVELS:
        return LEVELS[word]
    if word.lstrip("-").isdecimal():
        return logging.DEBUG if int(word) >= 4 else logging.INFO
    raise LevelError(_ALLOWED)


def _name(level: int) -> str:
    return logging.getLevelName(level).lower()


def _check_part(part: str) -> None:
    """A part of another of our programs is fine: what is said to one is often said to all."""
    if part in sys.modules or part in logging.root.manager.loggerDict or _exists(part):
        return
    ours = [name for name in sys.modules if name.startswith("kai")]
    near = spelling.nearest(part, ours)
    hint = f"did you mean {near}?" if near else "write the name of a module, such as kai.kube.reflector"
    raise LevelError(f"no part of this program is called {part!r}; {hint}")


def _exists(part: str) -> bool:
    """Whether there is such a module, loaded or not; none is loaded for that.

    Libraries may log under names that are no modules: of one that is not loaded the first word is enough.
    """
    top, *below = part.split(".")
    if not top.isidentifier() or top == "__main__":
        return False
    found = importlib.util.find_spec(top)
    if not top.startswith("kai") and top not in sys.modules:
        return found is not None
    for word in below:
        if found is None or not found.submodule_search_locations:
            return False
        found = PathFinder.find_spec(f"{found.name}.{word}", [*found.submodule_search_locations])
    return found is not None
