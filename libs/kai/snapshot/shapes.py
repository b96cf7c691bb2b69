"""Holding what stays JSON to the types that its readers rely on."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from kai.model.faults import OutOfBounds

T = TypeVar("T")
_ERROR: Final = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_NUMBER: Final = re.compile(r"Expected `\w+` (?P<sign><=|>=) (?P<number>-?\d+)")
_LENGTH: Final = re.compile(r"Expected `\w+` of length <= (?P<number>\d+)")
_TYPE: Final = re.compile(r"Expected `(?P<type>[^`]+)`")


def conform(value: Any, shape: Any, *, field: str = "") -> Any:
    """The value as a struct of this shape; ``field`` is where it stands in its object.

    Raises:
        OutOfBounds: something in it has another type or is beyond what the shape allows; it is named.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        match = _ERROR.fullmatch(str(error))
        path = (match["path"] if match else "") or ""
        found = _at(value, path)
        name = f"{field}{path}".removeprefix(".") or "the object"
        raise OutOfBounds(name, *_explanation(str(error), found)) from None


def _explanation(error: str, found: Any) -> tuple[Any, str]:
    """What is there, and what would be taken."""
    if match := _LENGTH.match(error):
        size = len(found) if isinstance(found, list | dict | str) else found
        return f"{size} items", f"at most {match['number']} items"
    if match := _NUMBER.match(error):
        return found, f"at {'most' if match['sign'] == '<=' else 'least'} {match['number']}"
    if match := _TYPE.match(error):
        return found, f"of type {match['type'].removesuffix(' | null')}"
    return found, error[:1].lower() + error[1:]


def _at(value: Any, path: str) -> Any:
    """What a path of msgspec's (``.spec.devices[0]``) leads to; None where it cannot be followed."""
    try:
        for key, index in _STEP.findall(path):
            value = value[key] if key else value[int(index)]
    except (KeyError, IndexError, TypeError):
        return None
    return value
