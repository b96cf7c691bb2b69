"""Which members of its inputs a CEL expression reads, so that no others are converted for it.

The library converts an input as a whole when any of it is read; objects are large, expressions read little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

Reads: TypeAlias = "dict[str, Reads] | None"
"""The members that are read, and of each the same. Empty: only whether it is there. None: all of it."""

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
#: Of the messages in which a compiled expression is written down: fields, their numbers, and types. The
#: numbers are those of ``cel.expr`` in its published protocol; what is not named is passed over.
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Checked": {"expr": (4, "Expr")},
    "Expr": {
        "const": (3, "Const"),
        "ident": (4, "Ident"),
        "select": (5, "Select"),
        "call": (6, "Call"),
        "list": (7, "List"),
        "struct": (8, "Struct"),
        "comprehension": (9, "Comprehension"),
    },
    "Const": {"null": (1, "int"), "text": (6, "text")},
    "Ident": {"name": (1, "text")},
    "Select": {"operand": (1, "Expr"), "field": (2, "text"), "test_only": (3, "bool")},
    "Call": {"target": (1, "Expr"), "function": (2, "text"), "args": (3, "Expr*")},
    "List": {"elements": (1, "Expr*")},
    "Struct": {"entries": (2, "Entry*")},
    "Entry": {"key": (3, "Expr"), "value": (4, "Expr")},
    "Comprehension": {
        "range": (2, "Expr"),
        "begin": (4, "Expr"),
        "condition": (5, "Expr"),
        "step": (6, "Expr"),
        "result": (7, "Expr"),
    },
}
_PLAIN: Final = {"int": _FIELD.TYPE_INT64, "text": _FIELD.TYPE_STRING, "bool": _FIELD.TYPE_BOOL}


def reads_of(program: Any) -> dict[str, Reads] | None:
    """By input, what a compiled expression reads of it; None where that cannot be told."""
    try:
        packed = any_pb2.Any.FromString(program.serialize())
        checked = _message("Checked").FromString(packed.value)
    except (DecodeError, RuntimeError):  # too deep, or not to be written down
        return None
    found: dict[str, Reads] = {}
    _read(checked.expr, (), None, found)
    return found


def both(one: Reads, other: Reads) -> Reads:
    """What either reads."""
    if one is None or other is None:
        return None
    return {
        key: both(one[key], other[key]) if key in one and key in other else (one | other)[key]
        for key in one | other
    }


def only(value: Any, reads: Reads) -> Any:
    """The value without members that nobody reads; what is kept is shared with it."""
    if reads is None or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return value if reads else []
    return {key: only(value[key], below) for key, below in reads.items() if key in value}


def only_of(values: Mapping[str, Any], reads: Mapping[str, Reads] | None) -> dict[str, Any]:
    """All inputs of an expression, each without what is not read."""
    if reads is None:
        return dict(values)
    return {name: only(value, reads.get(name, {})) for name, value in values.items()}


def _read(expr: Any, path: tuple[str, ...], last: Reads, found: dict[str, Reads]) -> None:
    """Note what is read where ``last`` is read at ``path`` below the value of the expression."""
    kind = _kind(expr)
    if kind == "ident":
        for key in reversed(path):
            last = {key: last}
        name = expr.ident.name
        found[name] = both(found[name], last) if name in found else last
    elif kind == "select":
        if expr.select.test_only:
            last = {}
        _read(expr.select.operand, (expr.select.field, *path), last, found)
    elif kind == "call":
        _read_call(expr.call, path, last, found)
    elif kind == "comprehension":
        for part in _MESSAGES["Comprehension"]:
            _read(getattr(expr.comprehension, part), (), None, found)
    elif kind == "list":
        for element in expr.list.elements:
            _read(element, (), None, found)
    elif kind == "struct":
        for entry in expr.struct.entries:
            _read(entry.key, (), None, found)
            _read(entry.value, (), None, found)


def _read_call(call: Any, path: tuple[str, ...], last: Reads, found: dict[str, Reads]) -> None:
    args = list(call.args)
    match call.function, args:
        case "dyn", [value]:
            _read(value, path, last, found)
        case "_?_:_", [condition, *values]:
            _read(condition, (), None, found)
            for value in values:
                _read(value, path, last, found)
        case "_[_]" | "_?._", [value, key] if key.HasField("const") and key.const.HasField("text"):
            _read(value, (key.const.text, *path), last, found)
        case "_==_" | "_!=_", [*_, null] if null.HasField("const") and null.const.HasField("null"):
            _read(args[0], (), {}, found)
        case _:
            for value in [call.target, *args] if call.HasField("target") else args:
                _read(value, (), None, found)


def _kind(expr: Any) -> str:
    return next((part for part in _MESSAGES["Expr"] if expr.HasField(part)), "")


@cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"kai.cel.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="kai/cel.proto", package="kai.cel", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for part, (number, kind) in fields.items():
            label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=part, number=number, label=label)
            kind = kind.removesuffix("*")
            if kind in _PLAIN:
                field.type = _PLAIN[kind]
            else:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".kai.cel.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
