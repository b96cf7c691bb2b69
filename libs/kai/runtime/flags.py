"""Command-line flags as the field writes them: ``--name=value``, ``--name value``, ``--switch``.

One dash is as good as two. A switch takes its value only after ``=``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kai.model import spelling


class FlagError(ValueError):
    """The command line cannot be understood; the message names the argument and the remedy."""


def parse(arguments: Iterable[str], *, known: Collection[str], switches: Collection[str]) -> dict[str, str]:
    """Flags by name without dashes; where one is repeated the last counts.

    Raises:
        FlagError: an unknown flag, one without its value, or an argument that is no flag.
    """
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-") or argument in ("-", "--"):
            raise FlagError(f"{argument!r} is not a flag; flags start with --")
        name, has_value, value = argument.lstrip("-").partition("=")
        if name not in known:
            raise FlagError(f"unknown flag --{name}{suggestion(name, known, prefix='--')}; see --help")
        if not has_value:
            value = "true" if name in switches else _next_value(name, rest)
        values[name] = value
    return values


def _next_value(name: str, rest: Iterable[str]) -> str:
    for value in rest:
        return value
    raise FlagError(f"flag --{name} needs a value: --{name}=VALUE")


def suggestion(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """``" (did you mean X?)"`` if something known is close to ``name``."""
    near = spelling.nearest(name, known)
    return f" (did you mean {prefix}{near}?)" if near else ""
