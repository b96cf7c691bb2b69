"""Reading objects of built-in kinds: type checks, unknown fields, quantities in their canonical form."""

import binascii
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from kai.model.quantity import InvalidQuantity, parse
from kai_local.apiserver.errors import Obj, show
from kai_local.apiserver.schemas.schema import Node

Path = tuple[Any, str | int] | None
"""Where a value stands: the parent's path and its own key; made cheaply, rendered only for messages."""

_GO_TYPES: Final = {"string": "string", "integer": "int64", "boolean": "bool", "number": "float64"}
_DECIMAL: Final = [("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3)]
_BINARY: Final = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)]
_TIME: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?"
    r"([Zz]|[+-]\d\d:\d\d)"
)


class DecodeError(ValueError):
    """The body does not have the shape of its kind."""


def render(path: Path) -> str:
    """``spec.containers[0].name``."""
    parts: list[str] = []
    while path is not None:
        path, key = path
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(parts)).removeprefix(".")


def decode(node: Node, value: Any, old: Any, path: Path, unknown: list[str]) -> Any:
    """``value`` without nulls and unknown fields (whose paths are appended), quantities made canonical.

    Of the strings and quantities of a map or a list a null is the empty one, and stays.

    What is the same object as in ``old`` was read before and is taken as it is.

    Raises:
        DecodeError: a value has the wrong type.
    """
    if value is old:
        return value
    kind = node.type
    if kind == "object":
        return _decode_object(node, value, old, path, unknown)
    if kind == "array":
        if not isinstance(value, list):
            raise _mismatch(value, "slice", path)
        items = node.items
        if items is None:
            return value
        return [
            decode(items, _zero(items) if item is None else item, None, (path, i), unknown)
            for i, item in enumerate(value)
        ]
    if node.quantity:
        return _quantity(value, path)
    if kind == "string":
        if not isinstance(value, str):
            raise _mismatch(value, "string", path)
        if node.time and not _TIME.fullmatch(value):
            raise DecodeError(f"{render(path)}: parsing time {show(value)}: it is not as RFC 3339 writes it")
        if node.base64 and not _is_base64(value):
            raise DecodeError(f"illegal base64 data ({render(path)})")
    elif kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mismatch(value, "int64", path)
    elif kind == "boolean":
        if not isinstance(value, bool):
            raise _mismatch(value, "bool", path)
    elif node.int_or_string and (not isinstance(value, int | str) or isinstance(value, bool)):
        raise _mismatch(value, "intstr.IntOrString", path)
    return value


def _decode_object(node: Node, value: Any, old: Any, path: Path, unknown: list[str]) -> Obj:
    if not isinstance(value, dict):
        raise _mismatch(value, "object", path)
    properties, additional = node.properties, node.additional
    if properties is None and additional is None:
        return value
    before = old if isinstance(old, dict) else {}
    read: Obj = {}
    for key, member in value.items():
        child = properties.get(key) if properties is not None else additional
        if child is None:
            unknown.append(render((path, key)))
            continue
        if member is None and properties is None:
            member = _zero(child)
        if member is not None:
            read[key] = decode(child, member, before.get(key), (path, key), unknown)
    return read


def _is_base64(text: str) -> bool:
    """Whether clients in Go, which cannot read a list with anything else in it, can read this."""
    try:
        binascii.a2b_base64(text.replace("\r", "").replace("\n", ""), strict_mode=True)
    except ValueError:
        return False
    return True


def _zero(node: Node) -> str | None:
    """What null is in a map or a list, where it is not as if nothing were there."""
    if node.quantity:
        return "0"
    return "" if node.type == "string" and not node.time else None


def _mismatch(value: Any, wanted: str, path: Path) -> DecodeError:
    found = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return DecodeError(
        f"json: cannot unmarshal {found.get(type(value), 'null')} "
        f"into Go struct field {render(path)} of type {wanted}"
    )


def _quantity(value: Any, path: Path) -> str:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return canonical(str(value))
    except InvalidQuantity:
        pass
    raise DecodeError(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        f" ({render(path)}: {value!r})"
    )


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """A quantity as the real server writes it back: ``0.5`` is ``500m``, ``1024Mi`` is ``1Gi``.

    Raises:
        InvalidQuantity: the text is not a quantity.
    """
    text = text.strip()
    value = parse(text)
    if value == 0:
        return "0"
    if text.endswith("i"):
        for suffix, bits in _BINARY:
            scaled = value / (1 << bits)
            if scaled == scaled.to_integral_value():
                return f"{int(scaled)}{suffix}"
    if "e" in text.lower() and not text.endswith("E"):
        exponent = int(text.lower().partition("e")[2])
        exponent -= exponent % 3
        return f"{(value / Decimal(10) ** exponent).normalize():f}e{exponent}"
    for suffix, power in _DECIMAL:
        scaled = value / Decimal(10) ** power
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return text
