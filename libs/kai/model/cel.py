"""Selectors of devices: CEL expressions over ``device``, as Kubernetes defines them.

``device.driver`` is a string; ``device.attributes["domain"].name`` an integer, boolean, string or semantic
version; ``device.capacity["domain"].name`` a quantity. A domain that a device does not have is an empty map,
a name that it does not have an error. Quantities and versions compare with ``compareTo``, ``isGreaterThan``
and ``isLessThan``.

The library (package ``cel-expr-python``, the extra ``dra``) is optional: without it every selector is a
fault.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kai.model import limits, quantity
from kai.model.cel_cost import worst_cost
from kai.model.dra import Device

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings
except ImportError:
    cel = None

#: Characters of expressions whose compiled form is kept.
KEPT_CHARACTERS: Final = 1 << 18
#: Of an expression, or of what is said about it, in a message.
_SHOWN: Final = 300
_ENDLESS: Final = 2.0**62
_LITERAL: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|' + r"'((?:[^'\\]|\\.)*)'")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


@dataclass(frozen=True, slots=True)
class SelectorFault:
    """Why a selector says neither yes nor no; a claim that has it cannot be allocated."""

    reason: str
    #: What an evaluation might cost, where that is known; it is not evaluated.
    cost: int = 0


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression, and the strings in it that may name domains."""

    expression: str
    program: Any
    literals: frozenset[str]
    #: What an evaluation may cost at most, in units of :mod:`kai.model.cel_cost`.
    cost: int

    def matches(self, variables: dict[str, Any]) -> bool | SelectorFault:
        """Whether a device with these variables (see :func:`variables_of`) is selected."""
        device = variables["device"]
        missing = [name for name in self.literals if name not in device["attributes"]]
        if missing:
            nothing: dict[str, dict[str, Any]] = {name: {} for name in missing}
            attributes = {**nothing, **device["attributes"]}
            capacity = {**nothing, **device["capacity"]}
            variables = {"device": {**device, "attributes": attributes, "capacity": capacity}}
        try:
            value = self.program.eval(data=variables).value()
        except (RuntimeError, ValueError) as error:
            value = error
        if isinstance(value, bool):
            return value
        return _fault(self.expression, f"is neither true nor false: {str(value)[:_SHOWN]}")


class Compiled:
    """What was compiled last. A compiled expression takes a hundred times the memory of its text."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Selector | SelectorFault] = OrderedDict()
        self._characters = 0

    def of(self, expression: str) -> Selector | SelectorFault:
        """As :func:`compile_selector`."""
        found = self._known.get(expression)
        if found is not None:
            self._known.move_to_end(expression)
            return found
        found = self._known[expression] = _compile(expression)
        self._characters += len(expression)
        while self._characters > KEPT_CHARACTERS and len(self._known) > 1:
            oldest, _ = self._known.popitem(last=False)
            self._characters -= len(oldest)
        return found

    def forget(self) -> None:
        """Keep none of them any more."""
        self._known.clear()
        self._characters = 0

    def __len__(self) -> int:
        return self._characters


COMPILED: Final = Compiled()


def compile_selector(expression: str) -> Selector | SelectorFault:
    """Compile an expression; the result is kept for a while."""
    return COMPILED.of(expression)


def estimated_cost(expression: str) -> int:
    """What an evaluation may cost at most; nothing if it cannot be evaluated for another reason."""
    return compile_selector(expression).cost


def _fault(expression: str, why: str, cost: int = 0) -> SelectorFault:
    shown = expression if len(expression) <= _SHOWN else f"{expression[:_SHOWN]}…"
    return SelectorFault(f"selector {shown!r} {why}", cost)


def _compile(expression: str) -> Selector | SelectorFault:
    if cel is None:
        return _fault(expression, "cannot be evaluated: the package cel-expr-python is not installed")
    try:
        program = _environment().compile(expression)
    except (RuntimeError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        return _fault(expression, f"does not compile: {first_line[:_SHOWN]}")
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        return _fault(expression, f"is of type {kind}; it must be true or false")
    cost = math.ceil(min(worst_cost(program), _ENDLESS))
    if not limits.EXPRESSION_COST.within(cost):
        return _fault(expression, f"may cost {cost}; it must be {limits.EXPRESSION_COST.bound}", cost)
    literals = frozenset(a or b for a, b in _LITERAL.findall(expression))
    return Selector(expression, program, literals, cost)


def variables_of(driver: str, device: Device) -> dict[str, Any]:
    """What expressions see of a device."""
    attributes: dict[str, dict[str, Any]] = {driver: {}}
    capacity: dict[str, dict[str, Any]] = {driver: {}}
    for key, attribute in device.attributes.items():
        domain, name = _qualified(key, driver)
        attributes.setdefault(domain, {})[name] = _attribute_value(attribute)
        capacity.setdefault(domain, {})
    for key, amount in device.capacity.items():
        domain, name = _qualified(key, driver)
        capacity.setdefault(domain, {})[name] = _message("Quantity")(text=amount.value)
        attributes.setdefault(domain, {})
    return {
        "device": {
            "driver": driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        }
    }


def _qualified(key: str, driver: str) -> tuple[str, str]:
    domain, slash, name = key.partition("/")
    return (domain, name) if slash else (driver, key)


def _attribute_value(attribute: Any) -> Any:
    if attribute.version is not None:
        return _message("Semver")(text=attribute.version)
    for value in (attribute.string, attribute.boolean, attribute.integer):
        if value is not None:
            return value
    return None


# --- the types that Kubernetes adds to the language ---------------------------------------------
@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="kai/cel.proto", package="kubernetes", syntax="proto3")
    for name in ("Quantity", "Semver"):
        message = file.message_type.add(name=name)
        message.field.add(
            name="text",
            number=1,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"kubernetes.{name}"))


def _semver(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]:
    """A key that compares as semantic versions do; a pre-release comes before its release."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version; write for example 1.2.3")
    numbers = tuple(int(match[group]) for group in (1, 2, 3))
    if match[4] is None:
        return numbers, ((2, 0, ""),)
    parts = match[4].split(".")
    return numbers, tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


_READERS: Final[dict[str, Callable[[str], Any]]] = {"Quantity": quantity.parse, "Semver": _semver}


def _compare(left: Any, right: Any) -> int:
    read = _READERS[left.DESCRIPTOR.name]
    a, b = read(left.text), read(right.text)
    return int(a > b) - int(a < b)


def _is(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _made(name: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    def make(text: str) -> Any:
        read(text)
        return _message(name)(text=text)

    return make


def _as_integer(value: Decimal) -> int:
    if value != value.to_integral_value():
        raise ValueError(f"{value} is not an integer")
    return int(value)


@cache
def _environment() -> Any:
    kind = cel.Type
    text, yes_or_no, number = kind.STRING, kind.BOOL, kind.INT
    functions: dict[str, list[Any]] = {}

    def member(name: str, type_: Any, result: Any, impl: Callable[..., Any], *others: Any) -> None:
        overloads = functions.setdefault(name, [])
        implementation = {} if overloads else {"impl": impl}
        label = f"{type_.name()}_{name}".replace(".", "_")
        overloads.append(cel.Overload(label, result, [type_, *others], is_member=True, **implementation))

    # At run time both types are just messages, so one implementation serves the overloads of both.
    shared: dict[str, Callable[..., Any]] = {
        "compareTo": _compare,
        "isGreaterThan": lambda a, b: _compare(a, b) > 0,
        "isLessThan": lambda a, b: _compare(a, b) < 0,
    }
    for name, read in _READERS.items():
        type_, low = kind(f"kubernetes.{name}"), name.lower()
        make, check = _made(name, read), _is(read)
        functions[low] = [cel.Overload(f"make_{low}", type_, [text], is_member=False, impl=make)]
        functions[f"is{name}"] = [cel.Overload(f"is_{low}", yes_or_no, [text], is_member=False, impl=check)]
        for method, impl in shared.items():
            member(method, type_, number if method == "compareTo" else yes_or_no, impl, type_)

    amount, version, make_amount = (
        kind("kubernetes.Quantity"),
        kind("kubernetes.Semver"),
        _message("Quantity"),
    )

    def value(of: Any) -> Decimal:
        return quantity.parse(of.text)

    member("sign", amount, number, lambda a: int(value(a) > 0) - int(value(a) < 0))
    member("isInteger", amount, yes_or_no, lambda a: value(a) == value(a).to_integral_value())
    member("asInteger", amount, number, lambda a: _as_integer(value(a)))
    member("asApproximateFloat", amount, kind.DOUBLE, lambda a: float(value(a)))
    member("add", amount, amount, lambda a, b: make_amount(text=f"{value(a) + value(b):f}"), amount)
    member("sub", amount, amount, lambda a, b: make_amount(text=f"{value(a) - value(b):f}"), amount)
    for position, name in enumerate(("major", "minor", "patch")):
        member(name, version, number, lambda a, at=position: _semver(a.text)[0][at])

    return cel.NewEnv(
        descriptor_pool=_pool(),
        variables={"device": kind.Map(text, kind.DYN)},
        functions=[cel.FunctionDecl(name, overloads) for name, overloads in functions.items()],
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
    )
