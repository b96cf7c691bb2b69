"""jq expressions of Karta definitions, by the library ``jq`` (extra ``karta``)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Protocol

from kai.model.objects import Json

try:
    import jq
except ImportError:  # the extra is optional: definitions are then ignored
    jq = None

_STRING: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_FORBIDDEN: Final = re.compile(
    r"\.\.|\b(?:def|del|range|paths|recurse|walk|repeat|while|until|limit|input|inputs|env|import|include|debug|halt\w*)\b"
    r"|\$ENV|\|=|[-+*/%]=|//=|(?<![=!<>])=(?!=)"
)


class InvalidExpression(ValueError):
    """The expression cannot be used, or fails on this object."""


class _Program(Protocol):
    def input_value(self, value: Json) -> Any: ...


def available() -> bool:
    """Whether the library is installed."""
    return jq is not None


def check(expression: str) -> None:
    """Refuse what is not jq, and what could run for ever, write, or look around.

    Raises:
        InvalidExpression: see the message.
    """
    if r"\(" in expression or (found := _FORBIDDEN.search(_STRING.sub('""', expression))):
        what = r"\( )" if r"\(" in expression else found[0]  # type: ignore[index]
        raise InvalidExpression(f"jq expression {expression!r} must not use {what!r}; write a plain path")
    _compiled(expression)


def evaluate(expression: str, value: Json) -> list[Any]:
    """All results of the expression.

    Raises:
        InvalidExpression: it fails on this value.
    """
    try:
        found: list[Any] = _compiled(expression).input_value(value).all()
    except ValueError as error:
        raise InvalidExpression(f"jq expression {expression!r}: {error}") from error
    return found


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> _Program:
    try:
        program: _Program = jq.compile(expression)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise InvalidExpression(f"jq expression {expression!r} is not valid: {first}") from error
    return program
