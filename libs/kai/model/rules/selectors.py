"""Whom a selector means: Kubernetes' rule for label selectors and for node selectors.

A requirement that no API server takes (an unknown operator, values too many or too few, a bound that is no
number) holds for nobody, negated or not: it has no meaning to be kept. Numbers are decimal and within int64.

Everything is compiled first and asked often; values are strings, None is a label that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kai.model.quantity import integer

Accepts: TypeAlias = Callable[[str | None], bool]
Selects: TypeAlias = Callable[[Mapping[str, str]], bool]

#: The only field of a node that a selector may name.
_NODE_NAME: Final = "metadata.name"


def label_requirement(expression: Mapping[str, Any]) -> Accepts:
    """Whether a label value satisfies a requirement of a label selector: In, NotIn, Exists, DoesNotExist."""
    values = [str(value) for value in expression.get("values") or ()]
    match expression.get("operator"), bool(values):
        case "In", True:
            return frozenset(values).__contains__
        case "NotIn", True:
            unwanted = frozenset(values)
            return lambda value: value not in unwanted
        case "Exists", False:
            return lambda value: value is not None
        case "DoesNotExist", False:
            return lambda value: value is None
    return _nobody


def node_requirement(expression: Mapping[str, Any]) -> Accepts:
    """As :func:`label_requirement`, and Gt and Lt against one whole number."""
    operator = expression.get("operator")
    if operator not in ("Gt", "Lt"):
        return label_requirement(expression)
    values = list(expression.get("values") or ())
    bound = integer(str(values[0])) if len(values) == 1 else None
    if bound is None:
        return _nobody
    if operator == "Gt":
        return lambda value: (have := integer(value)) is not None and have > bound
    return lambda value: (have := integer(value)) is not None and have < bound


def field_requirement(expression: Mapping[str, Any]) -> Accepts:
    """Whether a node's name satisfies a requirement on fields: In or NotIn with one value."""
    alone = len(expression.get("values") or ()) == 1
    if expression.get("key") != _NODE_NAME or expression.get("operator") not in ("In", "NotIn") or not alone:
        return _nobody
    return label_requirement(expression)


def label_selector(selector: Mapping[str, Any] | None) -> Selects:
    """Whether a label selector means what has these labels; none means nothing, an empty one everything.

    What is said of one key is taken together, so that asking costs time by the keys that are named, at most.
    """
    if selector is None:
        return lambda labels: False
    exact = tuple((selector.get("matchLabels") or {}).items())
    within: dict[str, frozenset[str]] = {}
    without: dict[str, frozenset[str]] = {}
    present, absent = set[str](), set[str]()
    for expression in selector.get("matchExpressions") or ():
        key = str(expression.get("key", ""))
        values = frozenset(str(value) for value in expression.get("values") or ())
        match expression.get("operator"), bool(values):
            case "In", True:
                within[key] = within[key] & values if key in within else values
            case "NotIn", True:
                without[key] = without.get(key, frozenset()) | values
            case "Exists", False:
                present.add(key)
            case "DoesNotExist", False:
                absent.add(key)
            case _:
                return lambda labels: False
    wanted = tuple(within.items())

    def matches(labels: Mapping[str, str]) -> bool:
        for key, value in exact:
            if labels.get(key) != value:
                return False
        for key, values in wanted:
            if labels.get(key) not in values:
                return False
        if not present <= labels.keys() or not absent.isdisjoint(labels):
            return False
        # There may be far more of these than labels.
        if without.keys().isdisjoint(labels):
            return True
        return all(labels[key] not in without[key] for key in without.keys() & labels.keys())

    return matches


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """As :func:`label_selector`, to be asked once."""
    return label_selector(selector)(labels)


class NodeTerm(NamedTuple):
    """What a node must satisfy, all of it: requirements by label, and of its name."""

    labels: tuple[tuple[str, Accepts], ...]
    name: tuple[Accepts, ...]

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node is meant."""
        return all(accepts(labels.get(key)) for key, accepts in self.labels) and all(
            accepts(name) for accepts in self.name
        )


def node_terms(terms: Sequence[Mapping[str, Any]]) -> tuple[NodeTerm, ...]:
    """The alternatives of a node selector; those without any requirement mean no node and are left out."""
    return tuple(
        NodeTerm(
            tuple(
                (str(each.get("key", "")), node_requirement(each))
                for each in term.get("matchExpressions") or ()
            ),
            tuple(field_requirement(each) for each in term.get("matchFields") or ()),
        )
        for term in terms
        if term.get("matchExpressions") or term.get("matchFields")
    )


def node_selector(selector: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node selector means the node of this name and labels: one of its terms holds."""
    return any(term.holds(name, labels) for term in node_terms(selector.get("nodeSelectorTerms") or ()))


def _nobody(_: str | None) -> bool:
    return False
