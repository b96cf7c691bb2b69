"""Label and field selectors."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kai.model.quantity import integer
from kai.model.rules.selectors import Selects, label_selector, node_requirement
from kai_local.apiserver.errors import Obj, bad_request
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.kinds.events import GROUP as EVENTS_GROUP
from kai_local.apiserver.store.storage import Record

_SET_TERM: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\Z")
_EQUAL_TERM: Final = re.compile(r"(?P<key>[^\s!=<>]+)\s*(?P<op>==|=|!=|<|>)\s*(?P<value>[^\s=!<>,()]*)\Z")
_KEY: Final = re.compile(r"!?\s*[A-Za-z0-9][-A-Za-z0-9_./]*\Z")

Test = Selects


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of terms over labels."""

    tests: tuple[Test, ...]

    def matches(self, labels: dict[str, str] | None) -> bool:
        """Whether every term holds."""
        found = labels or {}
        return all(test(found) for test in self.tests)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """``a=b,c!=d,e in (f,g),!h`` as a selector. Raises ApiFailure (400) when it is not one."""
    return LabelSelector(tuple(_label_test(term.strip(), text) for term in _split(text) if term.strip()))


def _split(text: str) -> list[str]:
    return re.split(r",(?![^(]*\))", text)


def _label_test(term: str, text: str) -> Test:
    match = _SET_TERM.match(term)
    if match:
        values = [value.strip() for value in match["values"].split(",")]
        return _requirement(match["key"], _SET_OPERATORS[match["op"]], values)
    match = _EQUAL_TERM.match(term)
    if match:
        if match["op"] in ("<", ">") and integer(match["value"]) is None:
            raise bad_request(f'"{match["value"]}" in the label selector "{text}" is no whole number')
        return _requirement(match["key"], _OPERATORS[match["op"]], [match["value"]])
    if _KEY.match(term):
        absent = term.startswith("!")
        return _requirement(term.lstrip("!").strip(), "DoesNotExist" if absent else "Exists", [])
    raise bad_request(f'unable to parse requirement: found "{term}" in the label selector "{text}"')


_SET_OPERATORS: Final = {"in": "In", "notin": "NotIn"}
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", "<": "Lt", ">": "Gt"}


def _requirement(key: str, operator: str, values: list[str]) -> Test:
    accepts = node_requirement({"operator": operator, "values": values})
    return lambda labels: accepts(labels.get(key))


def from_object(selector: Obj | None) -> LabelSelector:
    """A ``metav1.LabelSelector``; an empty one matches everything, None nothing."""
    return LabelSelector((label_selector(selector),))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """``path = value``, or ``path != value``."""

    path: str
    value: str
    negated: bool
    read: Callable[[Record], str]

    def matches(self, record: Record) -> bool:
        """Whether the term holds for this object."""
        return (self.read(record) == self.value) is not self.negated


@lru_cache(maxsize=4096)
def parse_fields(resource: Resource, text: str) -> tuple[FieldTerm, ...]:
    """``spec.nodeName=n1,status.phase!=Failed`` as terms.

    Raises ApiFailure (400) for a field not selectable.
    """
    terms = []
    for term in text.split(","):
        if not term.strip():
            continue
        path, operator, value = _cut(term.strip())
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append(FieldTerm(path, value, operator == "!=", _reader(resource, path)))
    return tuple(terms)


def exact_name(text: str) -> str:
    """The name that objects must have by a field selector; empty where any will do, or it cannot be read."""
    cut = [_cut(term.strip()) for term in text.split(",")]
    return next((value for path, operator, value in cut if path == "metadata.name" and operator != "!="), "")


def _cut(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        left, found, right = term.partition(operator)
        if found:
            return left, operator, right
    return term, "", ""


def _reader(resource: Resource, path: str) -> Callable[[Record], str]:
    if path == "metadata.name":
        return lambda record: record.name
    if path == "metadata.namespace" and resource.namespaced:
        return lambda record: record.namespace
    if path not in resource.selectable and not (resource.group == EVENTS_GROUP and path in _EVENT_FIELDS):
        raise bad_request(f"field label not supported: {path}")
    if resource.storage_key == ("", "events"):
        path = _EVENT_FIELDS.get(path, path)
        if path == "source":
            return lambda record: (
                dig(record.obj, "source", "component") or record.obj.get("reportingComponent", "")
            )
    if resource.kind == "Namespace" and path == "name":
        return lambda record: record.name
    keys = _WRITTEN_AS.get(path, path).split(".")
    absent = _ABSENT.get(path, "")
    return lambda record: _text(dig(record.obj, *keys), absent)


_EVENT_FIELDS: Final = {
    "reportingController": "reportingComponent",
    **{
        f"regarding.{name}": f"involvedObject.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
}

#: Fields that selectors call otherwise than objects do.
_WRITTEN_AS: Final = {"status.successful": "status.succeeded"}

_ABSENT: Final = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.successful": "0",
    "status.replicas": "0",
}


def _text(value: object, absent: str) -> str:
    if value is None:
        return absent
    if value is True or value is False:
        return str(value).lower()
    return str(value)


class Selection:
    """Which objects a list or a watch is about."""

    __slots__ = ("fields", "labels", "name", "namespace", "trivial")

    def __init__(self, resource: Resource, namespace: str, labels: str, fields: str, name: str = "") -> None:
        self.namespace = namespace if resource.namespaced else ""
        self.labels = parse_labels(labels) if labels else None
        self.fields = parse_fields(resource, fields) if fields else ()
        self.name = name
        for term in self.fields:
            if term.path == "metadata.name" and not term.negated:
                self.name = term.value
        self.trivial = not (namespace or self.labels or self.fields or name)

    def required(self, path: str) -> str | None:
        """The value that the field must equal, or None when any will do."""
        if path == "metadata.name":
            return self.name or None
        return next((term.value for term in self.fields if term.path == path and not term.negated), None)

    def matches(self, record: Record) -> bool:
        """Whether the object is one of them."""
        if self.trivial:
            return True
        if self.namespace and record.namespace != self.namespace:
            return False
        if self.name and record.name != self.name:
            return False
        for term in self.fields:
            if not term.matches(record):
                return False
        return self.labels is None or self.labels.matches(record.obj["metadata"].get("labels"))
