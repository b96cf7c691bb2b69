"""Lists without end cost their length, not its square: a tenant may send three megabytes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kai_local.apiserver.errors import Cause
from kai_local.apiserver.patches import apply, fieldsets, strategic
from kai_local.apiserver.rules import metadata_rules, pod_rules
from kai_local.apiserver.schemas import cel, schema, structural

LONG = 200
#: Of a length, that many comparisons for each element are few; its square is far from it.
FEW = 10 * LONG
POD = schema.builtin("", "v1", "Pod")
SPEC = POD.properties["spec"]
META = schema.object_meta()

compared = 0


class Item(dict):
    """An element that counts how often it is compared."""

    def __eq__(self, other: object) -> bool:
        global compared
        compared += 1
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def get(self, key, default=None):
        global compared
        compared += 1
        return dict.get(self, key, default)


class Word(str):
    """A text that does so."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        global compared
        compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def items(key: str = "name", begin: int = 0) -> list[Any]:
    return [Item({key: f"n{number}"}) for number in range(begin, begin + LONG)]


def words(begin: int = 0) -> list[Any]:
    return [Word(f"a.example.com/{number}") for number in range(begin, begin + LONG)]


def keyed() -> schema.Node:
    one = {"type": "object", "properties": {"name": {"type": "string"}}}
    one["x-kubernetes-validations"] = [{"rule": "self.name == oldSelf.name"}]
    return schema.structural(
        {
            "type": "array",
            "items": one,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
    )


def _abandoned() -> None:
    path = ("f:spec", "f:containers")
    gone = {(*path, Word(f"k:{number}"), ".") for number in range(LONG)}
    shared = {(*path, Word(f"k:{number}"), "f:image") for number in range(LONG, 2 * LONG)}
    assert apply._abandoned(gone, shared) == gone


def _rules() -> None:
    causes: list[Cause] = []
    cel.check_rules(keyed(), items(), items(begin=LONG), None, causes, update=True)
    assert not causes


def _elements() -> None:
    causes: list[Cause] = []
    node = schema.structural({"type": "array", "x-kubernetes-list-type": "set", "items": {}})
    structural.validate(node, items(), None, causes)
    assert not causes


DEEDS: dict[str, Callable[[], Any]] = {
    "strategic, the same elements": lambda: strategic.merge(
        SPEC, {"volumes": items()}, {"volumes": items()[::-1]}
    ),
    "strategic, new elements": lambda: strategic.merge(
        SPEC, {"volumes": items()}, {"volumes": items(begin=LONG)}
    ),
    "strategic, elements that go": lambda: strategic.merge(
        SPEC,
        {"volumes": items()},
        {"volumes": [Item({"name": f"n{n}", "$patch": "delete"}) for n in range(LONG)]},
    ),
    "strategic, a list of texts": lambda: strategic.merge(
        META, {"finalizers": words()}, {"finalizers": words(LONG)}
    ),
    "strategic, texts that go": lambda: strategic.merge(
        META, {"finalizers": words()}, {"$deleteFromPrimitiveList/finalizers": words(LONG)}
    ),
    "apply, a set": lambda: fieldsets.merge(META.properties["finalizers"], words(), words(LONG)),
    "apply, elements that nobody wants": _abandoned,
    "tolerations of a pod": lambda: pod_rules.pod_update(
        {"containers": [], "tolerations": items("key")}, {"containers": [], "tolerations": items("key")[::-1]}
    ),
    "volumes of a pod": lambda: pod_rules._volumes([{"name": word} for word in words()], "spec.volumes"),
    "finalizers of what is deleted": lambda: metadata_rules.change(
        {"finalizers": words()[::-1]}, {"uid": "u", "deletionTimestamp": "t", "finalizers": words()}
    ),
    "elements of a custom resource": _elements,
    "rules for elements of a custom resource": _rules,
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS.keys())
def test_a_long_list_is_gone_through_and_not_compared_with_itself(deed: Callable[[], Any]) -> None:
    global compared
    compared = 0
    deed()
    assert compared <= FEW


def test_elements_are_the_same_as_in_json() -> None:
    """True is no 1, and the order of members does not count."""
    node = schema.structural({"type": "array", "x-kubernetes-list-type": "set", "items": {}})
    causes: list[Cause] = []
    structural.validate(node, [1, True, "1", {"a": 1, "b": 2}, {"b": 2, "a": 1}], None, causes)
    assert [cause.field for cause in causes] == ["[4]"]
