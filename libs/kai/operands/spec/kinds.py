"""Kinds of values that fields take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from kai.model import duration, flag_values, quantity
from kai.model.objects import Json
from kai.operands.spec.fields import FieldKind, ListOf, MapOf, Scalar
from kai.operands.spec.problems import Place

Choice = TypeVar("Choice", bound=StrEnum)

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
    r"([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_KEY: Final = rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_PORTS: Final = 65535


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _matching(pattern: str, longest: int) -> Callable[[Any], str]:
    whole = re.compile(pattern)

    def read(value: Any) -> str:
        if len(_text(value)) > longest or not whole.fullmatch(value):
            raise ValueError(value)
        return str(value)

    return read


def _as_read(reader: Callable[[str], Any]) -> Callable[[Any], str]:
    """A text that a process can read so."""

    def read(value: Any) -> str:
        reader(_text(value))
        return str(value)

    return read


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return read


def text(allowed: str = "a text", *, pattern: str = "", longest: int = 4096) -> Scalar[str]:
    """A text, of a pattern if one is given, and then of at most ``longest`` characters."""
    openapi = {"type": "string"} | ({"pattern": f"^{pattern}$"} if pattern else {})
    return Scalar(allowed, _matching(pattern, longest) if pattern else _text, openapi)


def integer(*, least: int, most: int | None = None, width: str = "int32") -> Scalar[int]:
    """A whole number within bounds."""
    bounds = {"minimum": least} | ({} if most is None else {"maximum": most})
    allowed = (
        f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    )

    def read(value: Any) -> int:
        if type(value) is not int or value < least or (most is not None and value > most):
            raise ValueError(value)
        return value

    return Scalar(allowed, read, {"type": "integer", "format": width, **bounds})


def number(*, least: float) -> Scalar[float]:
    """A number that is not below a bound."""

    def read(value: Any) -> float:
        if type(value) not in (int, float) or not least <= value < float("inf"):
            raise ValueError(value)
        return float(value)

    return Scalar(f"a number of at least {least:g}", read, {"type": "number", "minimum": least})


def time(*, least: float = 0.0, days: bool = False) -> Scalar[str]:
    """A duration as users write it; kept as text."""

    def read(value: Any) -> str:
        if duration.parse(_text(value), days=days) < least:
            raise ValueError(value)
        return str(value)

    example = "such as 30s, 1h30m, 2d or 1w" if days else "such as 30s or 1h30m"
    bound = "above 0" if least > 0 else "not negative"
    return Scalar(f"a duration {example}, {bound}", read, {"type": "string"})


def one_of(words: Iterable[str]) -> Scalar[str]:
    """One of some words."""
    allowed = tuple(map(str, words))

    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError(value)
        return str(value)

    return Scalar(f"one of: {', '.join(allowed)}", read, {"type": "string", "enum": list(allowed)})


def _amount(value: Any) -> str:
    if type(value) not in (int, float, str):
        raise TypeError
    if quantity.parse(str(value)) < 0:
        raise ValueError(value)
    return str(value)


SWITCH: Final[Scalar[bool]] = Scalar("true or false", _exactly(bool), {"type": "boolean"})
TEXT: Final = text()
NAME: Final[Scalar[str]] = Scalar(
    "a name of lower-case letters, digits, - and .", _matching(_SUBDOMAIN, _LONGEST_NAME), {"type": "string"}
)
#: With what names begin.
NAME_PREFIX: Final[Scalar[str]] = Scalar(
    "the beginning of a name of lower-case letters, digits, - and .",
    _matching(rf"{_SUBDOMAIN}[-.]?", _LONGEST_NAME),
    {"type": "string"},
)
#: A name that is part of others, or a namespace.
SHORT_NAME: Final[Scalar[str]] = Scalar(
    "a name of lower-case letters, digits and -, of at most 63 characters",
    _matching(_LABEL, _LONGEST_LABEL),
    {"type": "string"},
)
#: Empty where none is wanted.
OPTIONAL_NAME: Final[Scalar[str]] = Scalar(
    "a name of lower-case letters, digits, - and ., or empty",
    _matching(f"({_SUBDOMAIN})?", _LONGEST_NAME),
    {"type": "string"},
)
LABEL_KEY: Final[Scalar[str]] = Scalar(
    "the key of a label, such as kai.scheduler/queue", _matching(_KEY, _LONGEST_NAME), {"type": "string"}
)
OPTIONAL_LABEL_KEY: Final[Scalar[str]] = Scalar(
    "the key of a label, or empty", _matching(f"({_KEY})?", _LONGEST_NAME), {"type": "string"}
)
LABEL_VALUE: Final[Scalar[str]] = Scalar(
    "the value of a label: letters, digits, -, _ and ., at most 63",
    _matching(_VALUE, _LONGEST_LABEL),
    {"type": "string"},
)
LABELS: Final = MapOf(LABEL_VALUE)
TEXTS: Final = MapOf(TEXT)
PORT: Final = integer(least=1, most=_PORTS)
OPTIONAL_PORT: Final = integer(least=0, most=_PORTS)
REPLICAS: Final = integer(least=0)
POSITIVE: Final = integer(least=1)
AMOUNT: Final[Scalar[str]] = Scalar(
    "an amount such as 500m, 2 or 4Gi, not negative",
    _amount,
    {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    },
)
METRIC_PREFIX: Final[Scalar[str]] = Scalar(
    "what names of metrics begin with: letters, digits, _ and :",
    _as_read(flag_values.metric_prefix),
    {"type": "string"},
)
METRIC_LABELS: Final[Scalar[str]] = Scalar(
    "LABEL=METRIC-LABEL,LABEL=METRIC-LABEL; metric labels are of letters, digits and _",
    _as_read(flag_values.metric_labels),
    {"type": "string"},
)
PAIRS: Final[Scalar[str]] = Scalar("LABEL=VALUE,LABEL=VALUE", _as_read(flag_values.pairs), {"type": "string"})
NAMES: Final = ListOf(NAME)
PORTS: Final = ListOf(PORT)


def _flag(value: Any) -> str:
    """A flag's value as text; YAML makes numbers and booleans of many."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) not in (int, float, str):
        raise TypeError
    return str(value)


FLAG: Final[Scalar[str]] = Scalar("a text, in quotes if it looks like a number", _flag, {"type": "string"})


class _Amounts(MapOf):
    """Amounts by resource, over those that hold without them; an empty mapping is none."""

    def read(self, given: Any, *, base: Mapping[str, Any] | None, at: Place) -> Mapping[str, Any]:
        found = MapOf.read(self, given, base=base or {}, at=at)
        return {**(base or {}), **found} if found else found


AMOUNTS: Final = _Amounts(AMOUNT)


class Shaped(FieldKind[Any]):
    """A piece of a pod's manifest: taken as it is written, if it has only fields that Kubernetes has there.

    A shape is a mapping of fields to shapes, a list of one shape, ``{"*": shape}`` for names of the user's,
    or a word: ``string``, ``integer``, ``boolean``, ``number or string`` for amounts, ``number or name``.
    """

    def __init__(self, shape: Any) -> None:
        self._shape = shape

    def read(self, given: Any, *, base: Any, at: Place) -> Any:
        """What is given, in place of what holds without it."""
        _check(given, self._shape, at)
        return given

    @property
    def schema(self) -> Json:
        """The same in OpenAPI."""
        return _openapi(self._shape)


_WORDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number or string": (int, str),
    "number or name": (int, str),
}


def _check(given: Any, shape: Any, at: Place) -> None:
    if isinstance(shape, str):
        if type(given) not in _WORDS[shape]:
            at.refuse(given, f"a {shape}")
    elif isinstance(shape, list):
        _check_list(given, shape[0], at)
    elif not isinstance(given, Mapping):
        at.refuse(given, "a mapping of fields")
    else:
        for key, each in given.items():
            wanted = shape.get("*", shape.get(key))
            if wanted is None:
                at.unknown(key, shape)
            elif each is not None:
                _check(each, wanted, at.below(str(key)))


def _check_list(given: Any, shape: Any, at: Place) -> None:
    if not isinstance(given, list | tuple):
        at.refuse(given, "a list")
        return
    for number_, each in enumerate(given):
        _check(each, shape, at.below(number_))


def _openapi(shape: Any) -> Json:
    if shape == "number or string":
        return dict(AMOUNT.openapi)
    if shape == "number or name":
        return {key: each for key, each in AMOUNT.openapi.items() if key != "pattern"}
    if isinstance(shape, str):
        return {"type": shape}
    if isinstance(shape, list):
        return {"type": "array", "items": _openapi(shape[0])}
    if "*" in shape:
        return {"type": "object", "additionalProperties": _openapi(shape["*"])}
    return {"type": "object", "properties": {key: _openapi(each) for key, each in shape.items()}}
