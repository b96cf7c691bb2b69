"""Strategic merge patch: lists of built-in types are merged by the keys that their types declare."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kai_local.apiserver.errors import Obj, bad_request
from kai_local.apiserver.schemas.sameness import fingerprint, first_places, without
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
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(merged.get(name), list):
            child = node.child(name) if node is not None else None
            if child is not None and child.merge:
                merged[name] = _member(child, merged[name], [], order)
    for key, values in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            merged[name] = without(merged.get(name) or (), values)
    return merged


def _member(node: Node | None, target: Any, value: Any, order: list[Any] | None) -> Any:
    if isinstance(value, dict):
        return merge(node, target, value)
    if isinstance(value, list) and node is not None and node.merge:
        if node.merge_key:
            return _merge_by_key(node, target or [], value, order)
        union = [*(target or []), *without(value, target or [])]
        return _in_order(union, lambda item: item, target or [], order or value)
    return value


def _merge_by_key(node: Node, target: list[Obj], patch: list[Obj], order: list[Obj] | None) -> list[Obj]:
    key = node.merge_key
    if any(item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [item for item in patch if _PATCH not in item]
    merged: list[Obj | None] = list(target)
    places: dict[str | bytes, list[int]] = {}
    for place, old in enumerate(target):
        places.setdefault(fingerprint(old.get(key)), []).append(place)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        name = fingerprint(item[key])
        if item.get(_PATCH) == "delete":
            for place in places.pop(name, ()):
                merged[place] = None
            continue
        if name not in places:
            places[name] = [len(merged)]
            merged.append({})
        at = places[name][0]
        if item.get(_PATCH) == "replace":
            merged[at] = {name: value for name, value in item.items() if name != _PATCH}
        else:
            merged[at] = merge(node.items, merged[at], item)
    before, wanted = ([item.get(key) for item in items] for items in (target, order or patch))
    left = [item for item in merged if item is not None]
    return _in_order(left, lambda item: item.get(key), before, wanted)


def _in_order(
    items: list[Any], name: Callable[[Any], Any], before: list[Any], wanted: list[Any]
) -> list[Any]:
    """Those whose names are ``wanted`` in that order, among the others, which stay as they were ``before``.

    Of those told where to stand, one that was there comes after the others that it followed, a new one at
    once.
    """
    ranks, stood = first_places(wanted), first_places(before)
    named = [(fingerprint(name(item)), item) for item in items]
    told = sorted((each for each in named if each[0] in ranks), key=lambda each: ranks[each[0]])
    others = deque((stood.get(key, len(before)), item) for key, item in named if key not in ranks)
    ordered = []
    for key, item in told:
        place = stood.get(key, -1)
        while others and others[0][0] < place:
            ordered.append(others.popleft()[1])
        ordered.append(item)
    return ordered + [item for _, item in others]
