"""Strategic merge patch: lists of built-in types are merged by the keys that their types declare."""

from collections.abc import Callable
from typing import Any, Final

from kai_local.apiserver.errors import Obj, bad_request
from kai_local.apiserver.schemas.schema import Node

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
        return _in_order(union, lambda item: item, target or [], order or value)
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
    before, wanted = ([item.get(key) for item in items] for items in (target, order or patch))
    return _in_order(merged, lambda item: item.get(key), before, wanted)


def _in_order(
    items: list[Any], name: Callable[[Any], Any], before: list[Any], wanted: list[Any]
) -> list[Any]:
    """Those whose names are ``wanted`` in that order, among the others, which stay as they were ``before``.

    Of those told where to stand, one that was there comes after the others that it followed, a new one at
    once.
    """
    told = sorted((item for item in items if name(item) in wanted), key=lambda item: wanted.index(name(item)))
    others = [item for item in items if name(item) not in wanted]
    ordered = []
    for item in told:
        place = before.index(name(item)) if name(item) in before else -1
        while others and before.index(name(others[0])) < place:
            ordered.append(others.pop(0))
        ordered.append(item)
    return ordered + others
