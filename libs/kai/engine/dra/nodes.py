"""Node selectors of slices and allocations."""

from __future__ import annotations

from collections.abc import Mapping

from kai.model.objects import Json


def node_matches(selector: Json, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms holds; a term without requirements never does."""
    return any(_term_matches(term, name, labels) for term in selector.get("nodeSelectorTerms") or ())


def _term_matches(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_holds(each, labels) for each in expressions) and all(
        _holds(each, {"metadata.name": name}) for each in fields
    )


def _holds(requirement: Json, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.get("key", ""))
    wanted = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(value or ""), int(wanted[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
    return False
