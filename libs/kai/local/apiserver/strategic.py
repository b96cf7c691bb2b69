"""Strategic merge patch: lists of built-in types are merged by the keys that their types declare."""

from typing import Any, Final

from kai.local.apiserver.errors import Obj, bad_request
from kai.local.apiserver.schema import Node

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def merge(node: Node | None, target: Any, patch: Obj) -> Obj:
    """``target`` with the patch applied; what does not change is shared with it.

    Raises:
        ApiFailure: (400) an element of a merged list lacks its key, or a directive is unknown.
    """
    directive = patch.get(_PATCH)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive}")
    merged: Obj = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        kept = set(patch[_RETAIN])
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith((_ORDER, _DELETE_FROM)):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        child = node.child(key) if node is not None else None
        merged[key] = _member(child, merged.get(key), value, patch.get(_ORDER + key))
    for key, values in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            merged[name] = [item for item in merged.get(name) or () if item not in values]
    return merged


def _member(node: Node | None, target: Any, value: Any, order: list[Any] | None) -> Any:
    if isinstance(value, dict):
        return merge(node, target, value)
    if isinstance(value, list) and node is not None and node.merge:
        if node.merge_key:
            return _merge_by_key(node, target or [], value, order)
        union = [*(target or []), *(item for item in value if item not in (target or []))]
        return (
            sorted(union, key=lambda item: order.index(item) if item in order else len(order))
            if order
            else union
        )
    return value


def _merge_by_key(node: Node, target: list[Obj], patch: list[Obj], order: list[Obj] | None) -> list[Obj]:
    key = node.merge_key
    if any(item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [item for item in patch if _PATCH not in item]
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get(_PATCH) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif item.get(_PATCH) == "replace":
            fresh = {name: value for name, value in item.items() if name != _PATCH}
            merged = [*merged[:at], fresh, *merged[at + 1 :]] if at is not None else [*merged, fresh]
        elif at is None:
            merged.append(merge(node.items, {}, item))
        else:
            merged[at] = merge(node.items, merged[at], item)
    if order:
        places = {item.get(key): place for place, item in enumerate(order)}
        merged = _reorder(merged, places, key)
    return merged


def _reorder(items: list[Obj], places: dict[Any, int], key: str) -> list[Obj]:
    """The listed elements in their given order; others keep their place after the one that they followed."""
    position = -1.0
    ranks = []
    for index, item in enumerate(items):
        if item.get(key) in places:
            position = float(places[item.get(key)])
            ranks.append((position, 0, index))
        else:
            ranks.append((position, 1, index))
    return [items[rank[2]] for rank in sorted(ranks)]
