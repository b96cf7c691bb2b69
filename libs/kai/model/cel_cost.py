"""What an expression of CEL may cost at most, estimated before it is evaluated, in the units of Kubernetes.

A unit is about one step: a name, a field, a call. Texts cost a tenth of a unit for each character that is
read or made, loops what is in them, as often as what they go through may be long. Nothing is known of
devices but how long what they say may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

#: The longest text, list or map that a device says: names and values have 64 characters at most.
_SAID: Final = 64
_CHARACTER: Final = 0.1
_PATTERN: Final = 0.25
_LIST, _MAP, _STRUCT = 10, 30, 40
_FIELDS: Final[Mapping[str, tuple[tuple[int, str, str], ...]]] = {
    "Constant": ((6, "string_value", "string"), (7, "bytes_value", "bytes")),
    "Ident": ((1, "name", "string"),),
    "Select": ((1, "operand", "Expr"), (2, "field", "string")),
    "Call": ((1, "target", "Expr"), (2, "function", "string"), (3, "args", "Expr*")),
    "CreateList": ((1, "elements", "Expr*"),),
    "Entry": ((3, "map_key", "Expr"), (4, "value", "Expr")),
    "CreateStruct": ((1, "message_name", "string"), (2, "entries", "Entry*")),
    "Comprehension": (
        (1, "iter_var", "string"),
        (2, "iter_range", "Expr"),
        (3, "accu_var", "string"),
        (4, "accu_init", "Expr"),
        (5, "loop_condition", "Expr"),
        (6, "loop_step", "Expr"),
        (7, "result", "Expr"),
        (8, "iter_var2", "string"),
    ),
    "Expr": (
        (3, "const_expr", "Constant"),
        (4, "ident_expr", "Ident"),
        (5, "select_expr", "Select"),
        (6, "call_expr", "Call"),
        (7, "list_expr", "CreateList"),
        (8, "struct_expr", "CreateStruct"),
        (9, "comprehension_expr", "Comprehension"),
    ),
    "CheckedExpr": ((4, "expr", "Expr"),),
}


@dataclass(frozen=True, slots=True)
class _Size:
    """How long a value may be, and what is in it if it is a list or a map."""

    length: float = _SAID
    element: _Size | None = None

    @property
    def total(self) -> float:
        """Characters and elements in all."""
        return self.length * max(self.element.total, 1.0) if self.element is not None else self.length


_ONE: Final = _Size(1)
_UNKNOWN: Final = _Size(_SAID, _Size())


def worst_cost(program: Any) -> float:
    """The units that a compiled expression may cost; infinitely many where it is nested too deep to tell."""
    wrapped = any_pb2.Any.FromString(program.serialize())
    syntax: Any = message_factory.GetMessageClass(_pool().FindMessageTypeByName("kai.CheckedExpr"))
    try:
        return _Estimate().of(syntax.FromString(wrapped.value).expr, {})[0]
    except (DecodeError, RecursionError):
        return math.inf


class _Estimate:
    """Costs and sizes of expressions; names in scope have known sizes."""

    def of(self, expr: Any, scope: Mapping[str, _Size]) -> tuple[float, _Size]:
        """What it costs at most, and how large its value may be."""
        match expr.WhichOneof("kind"):
            case "const_expr":
                return 0.0, self._constant(expr.const_expr)
            case "ident_expr":
                return 1.0, scope.get(expr.ident_expr.name, _UNKNOWN)
            case "select_expr":
                cost, _ = self.of(expr.select_expr.operand, scope)
                return cost + 1, _UNKNOWN
            case "call_expr":
                return self._call(expr.call_expr, scope)
            case "list_expr":
                return self._collection(_LIST, expr.list_expr.elements, scope)
            case "struct_expr":
                return self._struct(expr.struct_expr, scope)
            case "comprehension_expr":
                return self._loop(expr.comprehension_expr, scope)
        return 1.0, _ONE

    def _constant(self, constant: Any) -> _Size:
        kind = constant.WhichOneof("kind")
        return _Size(max(len(getattr(constant, kind)), 1)) if kind else _ONE

    def _collection(self, base: int, elements: Any, scope: Mapping[str, _Size]) -> tuple[float, _Size]:
        found = [self.of(element, scope) for element in elements]
        largest = _largest([size for _, size in found]) if found else _ONE
        return base + sum(cost for cost, _ in found), _Size(len(found), largest)

    def _struct(self, struct: Any, scope: Mapping[str, _Size]) -> tuple[float, _Size]:
        base = _STRUCT if struct.message_name else _MAP
        keys, key_sizes = self._collection(base, [e.map_key for e in struct.entries], scope)
        values, value_sizes = self._collection(0, [e.value for e in struct.entries], scope)
        largest = _largest([each.element for each in (key_sizes, value_sizes) if each.element is not None])
        return keys + values, _Size(len(struct.entries), largest)

    def _call(self, call: Any, scope: Mapping[str, _Size]) -> tuple[float, _Size]:
        parts = [
            self.of(each, scope)
            for each in (*((call.target,) if call.HasField("target") else ()), *call.args)
        ]
        cost, sizes = sum(cost for cost, _ in parts), [size for _, size in parts]
        if call.function == "_?_:_" and len(parts) == 3:
            (condition, _), (yes, a), (no, b) = parts
            return condition + max(yes, no) + 1, _largest([a, b])
        more, size = _called(call.function, sizes)
        return cost + more, size

    def _loop(self, loop: Any, scope: Mapping[str, _Size]) -> tuple[float, _Size]:
        begin, through = self.of(loop.iter_range, scope)
        start, held = self.of(loop.accu_init, scope)
        element = through.element or _Size()
        inside = {**scope, loop.iter_var: element, loop.accu_var: held}
        if loop.iter_var2:
            inside[loop.iter_var2] = element
        turns = through.length
        _, grown = self.of(loop.loop_step, inside)
        if turns and grown.length > held.length:  # by as much in each turn
            length = held.length + turns * (grown.length - held.length)
            held = _Size(length, _largest([each for each in (grown.element, held.element) if each]))
            inside[loop.accu_var] = held
        condition, _ = self.of(loop.loop_condition, inside)
        step, _ = self.of(loop.loop_step, inside)
        end, size = self.of(loop.result, {**scope, loop.accu_var: held})
        return begin + start + turns * (condition + step) + end, size


def _largest(sizes: list[_Size]) -> _Size:
    if not sizes:
        return _ONE
    elements = [size.element for size in sizes if size.element is not None]
    return _Size(max(size.length for size in sizes), _largest(elements) if elements else None)


def _called(function: str, sizes: list[_Size]) -> tuple[float, _Size]:
    """What a call costs beyond its arguments, and how large its value may be. Unknown ones read them all."""
    lengths = [size.length for size in sizes]
    read = _CHARACTER * sum(size.total for size in sizes)
    first = sizes[0] if sizes else _ONE
    match function:
        case "_+_":
            elements = [size.element for size in sizes if size.element is not None]
            return 1 + read, _Size(sum(lengths), _largest(elements) if elements else None)
        case "_[_]" | "_[?_]" | "_?._" | "optMap" | "optFlatMap":
            return 1, first.element or _UNKNOWN
        case "@in" | "_in_" | "in":
            return 1 + lengths[-1] + _CHARACTER * first.length * lengths[-1], _ONE
        case "matches":
            return 1 + _CHARACTER * first.total * _PATTERN * max(lengths[-1], 4), _ONE
        case "contains" | "indexOf" | "lastIndexOf":
            return 1 + _CHARACTER * first.total * max(_CHARACTER * lengths[1], 1), _ONE
        case "replace":
            made = first.length + (first.length + 1) * lengths[2]
            return 1 + read + _CHARACTER * made, _Size(made)
        case "split":
            return 1 + read + first.length, _Size(first.length + 1, _Size(first.length))
        case "join":
            made = first.length * (
                (first.element or _UNKNOWN).length + (lengths[1] if len(lengths) > 1 else 0)
            )
            return 1 + read + _CHARACTER * made, _Size(made)
        case "format":
            made = first.length * max(sizes[-1].total, 1.0)
            return 1 + read + _CHARACTER * made, _Size(made)
        case "size" | "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "startsWith" | "endsWith":
            return 1 + (0 if function == "size" else _CHARACTER * min(lengths, default=1)), _ONE
        case "_&&_" | "_||_" | "!_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_":
            return 1, _ONE
    return 1 + read, _largest([*sizes, _ONE])


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    """The part of CEL's public syntax tree that is looked at."""
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"string": field.TYPE_STRING, "bytes": field.TYPE_BYTES}
    file = descriptor_pb2.FileDescriptorProto(name="kai/cel_syntax.proto", package="kai", syntax="proto3")
    for name, parts in _FIELDS.items():
        message = file.message_type.add(name=name)
        choice = name in ("Expr", "Constant")
        if choice:
            message.oneof_decl.add(name="kind")
        for number, key, kind in parts:
            many, plain = kind.endswith("*"), kind.rstrip("*")
            one = message.field.add(
                name=key,
                number=number,
                label=field.LABEL_REPEATED if many else field.LABEL_OPTIONAL,
                type=kinds.get(plain, field.TYPE_MESSAGE),
            )
            if plain not in kinds:
                one.type_name = f".kai.{plain}"
            if choice:
                one.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
