"""What values of flags may be: the types by which services read theirs, and others look at them before.

Each type has a name, and with bounds behind it (``duration gt=0``) says all that a flag takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from kai.model import duration
from kai.model.log_levels import LogLevels
from kai.model.objects import PullPolicy

_METRIC_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC_PREFIX: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_BOUNDS: Final = ("ge", "gt", "le", "lt", "min_length")
#: What a process says of itself alone.
_WORDS: Final = {
    "bool_parsing": "it must be true or false",
    "int_parsing": "it must be a whole number",
    "float_parsing": "it must be a number",
    "decimal_parsing": "it must be a number",
}


# --- readers -----------------------------------------------------------------------------------
def _parse_duration(value: object) -> object:
    """Seconds from a number (``90``, ``1.5``) or from Go's notation (``1m30s``)."""
    if not isinstance(value, str):
        return value
    try:
        seconds = float(value)
    except ValueError:
        return duration.parse(value.strip())
    if not abs(seconds) <= duration.LONGEST_SECONDS:  # nor is a NaN
        raise duration.InvalidDuration(value, days=True)
    return seconds


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("it must be a finite number")
    return value


def _parse_level(value: object) -> object:
    """A level or a verbosity number, and levels of parts: ``info,kai.kube=debug``."""
    return str(LogLevels.parse(str(value)))


def zap_level(value: str) -> str:
    """A level as controllers written in Go take it: every number above 0 is debug."""
    text = value.strip().lower()
    if text.isdecimal() and int(text) > 0:
        return "debug"
    known = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
    if text not in known:
        raise ValueError("allowed are debug, info, error, panic or a number above 0")
    return known[text]


def zap_encoder(value: str) -> str:
    """Whether to log JSON, by the name of an encoder."""
    known = {"json": "true", "console": "false"}
    if value.strip().lower() not in known:
        raise ValueError("allowed are json and console")
    return known[value.strip().lower()]


def zap_devel(value: str) -> str:
    """Development mode is for people, production mode for programs."""
    known = {"true": "false", "1": "false", "t": "false", "false": "true", "0": "true", "f": "true"}
    if value.strip().lower() not in known:
        raise ValueError("allowed are true and false")
    return known[value.strip().lower()]


def _parse_listen(value: object) -> object:
    """``host:port``, ``:port`` or a bare port."""
    text = str(value).strip()
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError("write host:port, :port or a port; port 0 takes any free one")
    return f"{host}:{port}"


def _parse_redis_url(value: object) -> object:
    text = str(value).strip()
    if text and not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("write redis://host:port/db, rediss://… or unix://…, or nothing to work without")
    return text


def pairs(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping.

    Raises:
        ValueError: it is something else.
    """
    parsed: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not pair.strip():
            continue
        if not (key.strip() and equals):
            raise ValueError("write KEY=VALUE,KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed


def metric_labels(text: str) -> dict[str, str]:
    """``a=b,c=d`` as a mapping to labels of metrics.

    Raises:
        ValueError: it is something else.
    """
    labels = pairs(text)
    for label in labels.values():
        if not _METRIC_LABEL.fullmatch(label):
            raise ValueError(f"{label!r} is not a metric label; use letters, digits and _")
    return labels


def metric_prefix(text: str) -> str:
    """What names of metrics may begin with.

    Raises:
        ValueError: they may not begin so.
    """
    if not _METRIC_PREFIX.fullmatch(text):
        raise ValueError("use letters, digits, _ and :")
    return text


def labels(text: str) -> dict[str, str]:
    """Labels that something must have, ``k=v,k=v``, as a mapping.

    Raises:
        ValueError: it is something else.
    """
    found = {}
    for term in filter(None, text.split(",")):
        key, equals, value = term.partition("=")
        if not (key.strip() and equals):
            raise ValueError(f"write label=value,label=value; {term!r} is not of that form")
        found[key.strip()] = value.strip()
    return found


def _selecting(text: str) -> str:
    labels(text)
    return text


def _parse_pairs(value: object) -> object:
    return pairs(value) if isinstance(value, str) else value


def _parse_metric_labels(value: object) -> object:
    return metric_labels(value) if isinstance(value, str) else value


def _json_object(value: object) -> object:
    """A JSON object written as text."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return {}
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"must be a JSON object: {error}") from error


# --- types -------------------------------------------------------------------------------------
Number = Annotated[float, AfterValidator(_finite)]
#: Seconds; Go's notation is understood.
Duration = Annotated[float, BeforeValidator(_parse_duration)]
LogLevel = Annotated[str, BeforeValidator(_parse_level)]
#: ``host:port``; an empty host means all interfaces.
Listen = Annotated[str, BeforeValidator(_parse_listen)]
#: The same, or nothing.
OptionalListen = Literal[""] | Listen
RedisUrl = Annotated[str, BeforeValidator(_parse_redis_url)]
Pairs = Annotated[dict[str, str], BeforeValidator(_parse_pairs)]
MetricLabels = Annotated[dict[str, str], BeforeValidator(_parse_metric_labels)]
MetricPrefix = Annotated[str, AfterValidator(metric_prefix)]
#: ``k=v,k=v``.
Selector = Annotated[str, AfterValidator(_selecting)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(_json_object)]

_TYPES: Final[Mapping[str, Any]] = {
    "text": str,
    "switch": bool,
    "integer": int,
    "number": Number,
    "decimal": Decimal,
    "duration": Duration,
    "log-level": LogLevel,
    "listen": Listen,
    "optional-listen": OptionalListen,
    "redis-url": RedisUrl,
    "pairs": Pairs,
    "metric-labels": MetricLabels,
    "metric-prefix": MetricPrefix,
    "selector": Selector,
    "json": JsonObject,
    "pull-policy": PullPolicy,
    "zap-log-level": Annotated[str, BeforeValidator(zap_level)],
    "zap-encoder": Annotated[str, BeforeValidator(zap_encoder)],
    "zap-devel": Annotated[str, BeforeValidator(zap_devel)],
}
#: What may be left open is read as the rest is.
_OPTIONAL: Final[Mapping[Any, Any]] = {str | None: str, bool | None: bool}


def kind_of(field: FieldInfo) -> str:
    """The name of what a field takes, with its bounds.

    Raises:
        LookupError: it is of no type that is known here; others could not look at values of its flag.
    """
    known = {_identity(FieldInfo.from_annotation(each)): name for name, each in _TYPES.items()}
    annotation, validators = _identity(field)
    name = known.get((_OPTIONAL.get(annotation, annotation), validators))
    if name is None:
        raise LookupError(f"no type of flags is {annotation} with {validators}")
    bounds = [
        f"{bound}={getattr(each, bound)}"
        for each in field.metadata
        for bound in _BOUNDS
        if hasattr(each, bound)
    ]
    return " ".join([name, *bounds])


def _identity(field: FieldInfo) -> tuple[Any, tuple[Any, ...]]:
    validators = (each for each in field.metadata if isinstance(each, AfterValidator | BeforeValidator))
    return field.annotation, tuple(validators)


def read(kind: str, text: str) -> Any:
    """The value that a process would read.

    Raises:
        ValueError: it would refuse it; says why.
    """
    try:
        return _reader(kind).validate_python(text)
    except ValidationError as error:
        raise ValueError("; ".join(map(_said, error.errors(include_url=False)))) from None


def _said(problem: Mapping[str, Any]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "it must be")
    return _WORDS.get(problem["type"], message)


@lru_cache(maxsize=128)
def _reader(kind: str) -> TypeAdapter[Any]:
    name, *bounds = kind.split()
    said: dict[str, Any] = {bound: int(most) for bound, _, most in (each.partition("=") for each in bounds)}
    bounded: Any = Annotated[_TYPES[name], Field(**said)]
    return TypeAdapter(bounded)
