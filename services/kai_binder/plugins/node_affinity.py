"""Node selectors as volumes carry them: terms are alternatives, expressions of a term hold together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def matches_node(selector: Json, node: Json) -> bool:
    """Whether a node selector admits a node. A term without any expression admits none."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Json, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False
    return all(_holds(e, labels) for e in expressions) and all(_holds(e, fields) for e in on_fields)


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) is not None and int(value or 0) > int(values[0])
        case "Lt":
            return _number(value) is not None and int(value or 0) < int(values[0])
        case _:
            return False


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.lstrip("-").isdecimal() else None
