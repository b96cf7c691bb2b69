"""Label selectors, as Kubernetes reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def requirement(expression: Mapping[str, Any]) -> Callable[[str | None], bool]:
    """Whether a label value satisfies a selector requirement; None is a missing label."""
    operator = expression.get("operator")
    listed = list(expression.get("values") or ())
    values = frozenset(listed)
    match operator:
        case "In":
            return lambda value: value in values
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case "Gt" | "Lt":
            return lambda value: _compares(value, str(operator), listed)
    return lambda value: False


def _compares(value: str | None, operator: str, values: list[str]) -> bool:
    try:
        number, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def selecting(selector: Mapping[str, Any] | None) -> Callable[[Mapping[str, str]], bool]:
    """Whether a label selector matches labels, to be asked often; none matches nothing, an empty one all."""
    if selector is None:
        return lambda labels: False
    exact = tuple((selector.get("matchLabels") or {}).items())
    checks = tuple(
        (str(expression.get("key", "")), requirement(expression))
        for expression in selector.get("matchExpressions") or ()
    )

    def matches(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in exact) and all(
            accepts(labels.get(key)) for key, accepts in checks
        )

    return matches


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels; as :func:`selecting`."""
    return selecting(selector)(labels)
