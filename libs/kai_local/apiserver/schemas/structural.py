"""Custom resources against their structural schema: pruning, defaults, validation."""

import math
import re
from functools import lru_cache
from typing import Any, Final

from kai_local.apiserver.errors import Cause, Obj, invalid_value, required, show, unsupported
from kai_local.apiserver.schemas.decode import Path, render
from kai_local.apiserver.schemas.sameness import fingerprint
from kai_local.apiserver.schemas.schema import Node, structural

_ROOT: Final = ("apiVersion", "kind", "metadata")
_TYPES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def prune(node: Node, value: Any, path: Path, unknown: list[str]) -> Any:
    """``value`` without fields that the schema does not know; their paths are appended to ``unknown``.

    A field that is null and may not be counts as absent. The value itself comes back when nothing had to go.
    """
    if isinstance(value, dict):
        return _prune_object(node, value, path, unknown)
    if isinstance(value, list) and node.items is not None:
        items = [prune(node.items, item, (path, i), unknown) for i, item in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _prune_object(node: Node, value: Obj, path: Path, unknown: list[str]) -> Obj:
    kept: Obj = {}
    changed = False
    for key, member in value.items():
        if (path is None or node.embedded) and key in _ROOT:
            kept[key] = member
            continue
        child = node.child(key)
        if child is not None and member is None and not child.nullable:
            changed = True
        elif child is not None:
            kept[key] = prune(child, member, (path, key), unknown)
            changed = changed or kept[key] is not member
        elif node.preserve_unknown:
            kept[key] = member
        else:
            unknown.append(render((path, key)))
            changed = True
    return kept if changed else value


def fill_defaults(node: Node, value: Any) -> Any:
    """``value`` with the schema's defaults where a field is absent."""
    if isinstance(value, dict):
        filled = None
        for key, child in (node.properties or {}).items():
            if not child.deep_default:
                continue
            if key not in value and not child.has_default:
                continue
            new = fill_defaults(child, value.get(key, child.default))
            if new is not value.get(key):
                filled = dict(value) if filled is None else filled
                filled[key] = new
        if node.additional is not None and node.additional.deep_default:
            filled = {
                key: fill_defaults(node.additional, member) for key, member in (filled or value).items()
            }
        return value if filled is None else filled
    if isinstance(value, list) and node.items is not None and node.items.deep_default:
        return [fill_defaults(node.items, item) for item in value]
    return value


def validate(node: Node, value: Any, path: Path, causes: list[Cause]) -> None:
    """Append what the schema forbids."""
    if value is None:
        if not node.nullable and node.type:
            causes.append(_wrong_type(node, value, path))
        return
    if not _has_type(node, value):
        causes.append(_wrong_type(node, value, path))
        return
    if node.checks:
        _check_value(node.checks, value, path, causes)
    if isinstance(value, dict):
        causes += [required(render((path, key))) for key in node.required if key not in value]
        for key, member in value.items():
            child = None if path is None and key in _ROOT else node.child(key)
            if child is not None:
                validate(child, member, (path, key), causes)
    elif isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                validate(node.items, item, (path, index), causes)
        _check_list(node, value, path, causes)


def _has_type(node: Node, value: Any) -> bool:
    if node.int_or_string:
        return isinstance(value, int | str) and not isinstance(value, bool)
    match node.type:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return True


def type_name(value: Any) -> str:
    """The JSON type of a value."""
    return "null" if value is None else _TYPES[type(value)]


def _wrong_type(node: Node, value: Any, path: Path) -> Cause:
    wanted = "integer,string" if node.int_or_string else node.type
    where = render(path)
    note = f"{where} in body must be of type {wanted}: {show(type_name(value))}"
    return Cause(where, f"Invalid value: {show(type_name(value))}: {note}", "FieldValueTypeInvalid")


def _check_value(checks: Obj, value: Any, path: Path, causes: list[Cause]) -> None:
    where = render(path)
    if "enum" in checks and value not in checks["enum"]:
        causes.append(unsupported(where, value, checks["enum"]))
    if isinstance(value, str):
        causes += _check_string(checks, value, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(checks, value, where)
    elif isinstance(value, list):
        causes += _check_size(checks, len(value), where, "items", "Items")
    elif isinstance(value, dict):
        causes += _check_size(checks, len(value), where, "properties", "Properties")
    for key in ("allOf", "anyOf", "oneOf", "not"):
        if key in checks:
            _check_junctor(key, checks[key], value, path, causes)


def _check_string(checks: Obj, value: str, where: str) -> list[Cause]:
    causes = []
    if "maxLength" in checks and len(value) > checks["maxLength"]:
        note = f"Too long: may not be more than {checks['maxLength']} bytes"
        causes.append(Cause(where, note, "FieldValueTooLong"))
    if "minLength" in checks and len(value) < checks["minLength"]:
        causes.append(
            invalid_value(
                where, value, f"{where} in body should be at least {checks['minLength']} chars long"
            )
        )
    if "pattern" in checks and not _pattern(checks["pattern"]).search(value):
        causes.append(invalid_value(where, value, f"{where} in body should match '{checks['pattern']}'"))
    return causes


def _check_number(checks: Obj, value: float, where: str) -> list[Cause]:
    causes = []
    low, high = checks.get("minimum", -math.inf), checks.get("maximum", math.inf)
    below = value <= low if checks.get("exclusiveMinimum") else value < low
    above = value >= high if checks.get("exclusiveMaximum") else value > high
    if below:
        relation = "greater than" if checks.get("exclusiveMinimum") else "greater than or equal to"
        causes.append(invalid_value(where, value, f"{where} in body should be {relation} {low}"))
    if above:
        relation = "less than" if checks.get("exclusiveMaximum") else "less than or equal to"
        causes.append(invalid_value(where, value, f"{where} in body should be {relation} {high}"))
    if "multipleOf" in checks and math.fmod(value, checks["multipleOf"]):
        causes.append(
            invalid_value(where, value, f"{where} in body should be a multiple of {checks['multipleOf']}")
        )
    return causes


def _check_size(checks: Obj, size: int, where: str, noun: str, suffix: str) -> list[Cause]:
    low, high = checks.get("min" + suffix, 0), checks.get("max" + suffix)
    if high is not None and size > high:
        return [Cause(where, f"Too many: {size}: must have at most {high} items", "FieldValueTooMany")]
    if size < low:
        return [invalid_value(where, size, f"{where} in body should have at least {low} {noun}")]
    return []


def _check_list(node: Node, value: list[Any], path: Path, causes: list[Cause]) -> None:
    if node.list_type not in ("set", "map"):
        return
    seen: set[str | bytes] = set()
    for index, item in enumerate(value):
        if node.list_type == "map" and isinstance(item, dict):
            item = {key: item[key] for key in node.map_keys if key in item}
        same = fingerprint(item)
        if same in seen:
            causes.append(
                Cause(render((path, index)), f"Duplicate value: {show(item)}", "FieldValueDuplicate")
            )
        seen.add(same)


def _check_junctor(key: str, schemas: Any, value: Any, path: Path, causes: list[Cause]) -> None:
    where = render(path)
    if key == "not":
        if not _causes(schemas, value, path):
            causes.append(invalid_value(where, value, f"{where} must not validate the schema (not)"))
        return
    results = [_causes(schema, value, path) for schema in schemas]
    passed = sum(not result for result in results)
    if key == "allOf":
        causes += [cause for result in results for cause in result]
    elif key == "anyOf" and not passed:
        causes.append(
            invalid_value(where, value, f"{where} in body must validate at least one schema (anyOf)")
        )
    elif key == "oneOf" and passed != 1:
        note = (
            f"{where} in body must validate one and only one schema (oneOf). Found {passed or 'none'} valid"
        )
        causes.append(invalid_value(where, value, note))


_junctors: dict[int, tuple[Obj, Node]] = {}


def _causes(schema: Obj, value: Any, path: Path) -> list[Cause]:
    known = _junctors.get(id(schema))
    if known is None or known[0] is not schema:
        known = _junctors[id(schema)] = (schema, structural(schema))
    found: list[Cause] = []
    validate(known[1], value, path, found)
    return found


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)
