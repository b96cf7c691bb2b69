"""CEL: the rules of custom resources (``x-kubernetes-validations``) and the match conditions of webhooks."""

import re
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_optional, ext_strings

from kai_local.apiserver.errors import Cause, show
from kai_local.apiserver.schemas import cel_reads
from kai_local.apiserver.schemas.decode import Path, render
from kai_local.apiserver.schemas.sameness import fingerprint
from kai_local.apiserver.schemas.schema import Node
from kai_local.apiserver.schemas.structural import type_name

_DYN: Final = cel.Type.DYN
_CAUSES: Final = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


class CelError(ValueError):
    """The expression does not compile, or failed on the values given."""


@lru_cache(maxsize=8)
def _environment(variables: tuple[str, ...]) -> Any:
    return cel.NewEnv(
        variables=dict.fromkeys(variables, _DYN),
        extensions=extensions(),
        functions=library(),
    )


def extensions() -> list[Any]:
    """Parts of the language that Kubernetes takes as they are."""
    return [ext_strings.ExtStrings(), ext_math.ExtMath(), ext_optional.ExtOptional()]


def library() -> list[Any]:
    """Functions that Kubernetes adds to the language and that rules of the field use."""

    def member(name: str, result: Any, parameters: list[Any], function: Any) -> Any:
        overload = cel.Overload(f"kube_{name}", result, parameters, True, function)
        return cel.FunctionDecl(name, [overload])

    return [
        member("isSorted", cel.Type.BOOL, [cel.Type.List(_DYN)], lambda items: items == sorted(items)),
        member("sum", _DYN, [cel.Type.List(_DYN)], sum),
        member("find", cel.Type.STRING, [cel.Type.STRING, cel.Type.STRING], _find),
    ]


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


@lru_cache(maxsize=1024)
def compile_expression(
    expression: str, variables: tuple[str, ...]
) -> tuple[Any, dict[str, cel_reads.Reads] | None]:
    """The compiled expression over these variables, and what it reads of them. Raises CelError."""
    try:
        program = _environment(variables).compile(expression)
    except RuntimeError as error:
        raise CelError(str(error)) from error
    return program, cel_reads.reads_of(program)


def evaluate(expression: str, **values: Any) -> Any:
    """The value of the expression. Raises CelError when it does not compile or fails."""
    program, reads = compile_expression(expression, tuple(sorted(values)))
    return value_of(program, data=cel_reads.only_of(values, reads))


def value_of(program: Any, **inputs: Any) -> Any:
    """The value of a compiled expression. Raises CelError when it fails, or goes on for too long."""
    try:
        result = program.eval(**inputs)
    except RuntimeError as error:
        raise CelError(str(error)) from error
    if result.type().name() == "ERROR":
        raise CelError(str(result.plain_value()))
    return result.plain_value()


def check_rules(node: Node, value: Any, old: Any, path: Path, causes: list[Cause], *, update: bool) -> None:
    """Append what the CEL rules of the schema forbid; transition rules count where there is an old value."""
    broken = (rule for rule in node.rules if not _holds(rule["rule"], value, old, update))
    causes.extend(_violation(rule, value, old, path) for rule in broken)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, member in value.items():
            child = node.child(key)
            if child is not None and child.deep_rules and member is not None:
                known = key in before
                check_rules(child, member, before.get(key), (path, key), causes, update=update and known)
    elif isinstance(value, list) and node.items is not None and node.items.deep_rules:
        before_by_key = _by_key(node, old)
        for index, item in enumerate(value):
            match = before_by_key.get(_key(node, item)) if before_by_key else None
            check_rules(node.items, item, match, (path, index), causes, update=match is not None)


def _by_key(node: Node, old: Any) -> dict[str | bytes, Any]:
    """The elements of the old list: only lists with keys tell which is the same in the new one."""
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(node, item): item for item in reversed(old)}


def _key(node: Node, item: Any) -> str | bytes:
    return fingerprint([item.get(key) for key in node.map_keys])


def _holds(rule: str, value: Any, old: Any, update: bool) -> bool:
    if "oldSelf" in rule:
        return not update or bool(_truth(rule, self=value, oldSelf=old))
    return bool(_truth(rule, self=value))


def _truth(rule: str, **values: Any) -> Any:
    try:
        return evaluate(rule, **values)
    except CelError:
        return False


def _violation(rule: dict[str, Any], value: Any, old: Any, path: Path) -> Cause:
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    if "messageExpression" in rule:
        values = (
            {"self": value, "oldSelf": old} if "oldSelf" in rule["messageExpression"] else {"self": value}
        )
        text = _truth(rule["messageExpression"], **values)
        message = text if isinstance(text, str) and text else message
    reason = rule.get("reason", "FieldValueInvalid")
    prefix = _CAUSES.get(reason, "Invalid value")
    if reason in ("FieldValueInvalid", "FieldValueDuplicate"):
        prefix += f": {show(type_name(value) if isinstance(value, dict | list) else value)}"
    return Cause(render(path) + rule.get("fieldPath", ""), f"{prefix}: {message}", reason)
