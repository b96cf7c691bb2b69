"""Which fields an object sets, as sets of paths in the notation of ``FieldsV1``.

A path is a tuple of steps: ``f:name`` for a member, ``k:{"name":"x"}`` for an element of a keyed list,
``v:"x"`` for an element of a set. Only leaves are listed, with ``.`` as last step for a list element itself.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.schemas.sameness import first_places, without
from kai_local.apiserver.schemas.schema import Node

FieldPath = tuple[str, ...]
_encode: Final = msgspec.json.Encoder(order="sorted").encode
#: metadata that the server itself keeps
_UNOWNED: Final = frozenset(
    [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "generateName",
    ]
)


def owned(node: Node | None, obj: Obj) -> dict[FieldPath, Any]:
    """Every field that the object sets and somebody can own, with its value."""
    found: dict[FieldPath, Any] = {}
    for key, value in obj.items():
        if key in ("apiVersion", "kind"):
            continue
        child = node.child(key) if node is not None else None
        if key == "metadata" and isinstance(value, dict):
            value = {name: member for name, member in value.items() if name not in _UNOWNED}
            if not value:
                continue
        found.update(_walk(child, value, (f"f:{key}",)))
    return found


def _walk(node: Node | None, value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(value, dict) and value and not (node is not None and node.atomic_map):
        for key, member in value.items():
            child = node.child(key) if node is not None else None
            yield from _walk(child, member, (*path, f"f:{key}"))
    elif isinstance(value, list) and node is not None and node.list_type == "map" and _keyed(value):
        for item in value:
            step = element(node, item)
            yield (*path, step, "."), None
            for key, member in item.items():
                child = node.items.child(key) if node.items is not None else None
                yield from _walk(child, member, (*path, step, f"f:{key}"))
    elif isinstance(value, list) and node is not None and node.list_type == "set":
        for item in value:
            yield (*path, "v:" + _encode(item).decode()), item
    else:
        yield path, value


def _keyed(items: list[Any]) -> bool:
    """Whether the elements can have keys: what somebody wrote into an annotation was checked by nobody."""
    return all(isinstance(item, dict) for item in items)


def element(node: Node, item: Obj) -> str:
    """The step that names an element of a keyed list."""
    keys = {}
    for key in node.map_keys:
        value = item.get(key)
        if value is None and node.items is not None:
            child = node.items.child(key)
            value = child.default if child is not None and child.has_default else _KEY_DEFAULTS.get(key)
        if value is not None:
            keys[key] = value
    return "k:" + _encode(keys).decode()


_KEY_DEFAULTS: Final = {"protocol": "TCP"}


def to_fields(paths: Iterable[FieldPath]) -> Obj:
    """The paths as ``fieldsV1``."""
    root: Obj = {}
    for path in sorted(paths):
        level = root
        for step in path:
            level = level.setdefault(step, {})
    return root


def from_fields(fields: Obj, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The leaves of a ``fieldsV1``."""
    for step, below in fields.items():
        if below:
            yield from from_fields(below, (*path, step))
        elif step != "." or (path and path[-1].startswith("k:")):
            yield (*path, step)


def dotted(path: FieldPath) -> str:
    """``.spec.containers[name="a"].image``: a path as messages show it."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{key}={_encode(value).decode()}" for key, value in keys.items()) + "]"
        elif kind == "v":
            text += f"[={rest}]"
    return text


def merge(node: Node | None, live: Any, config: Any) -> Any:
    """``live`` with everything that ``config`` sets; lists are merged as their type says."""
    if isinstance(config, dict) and isinstance(live, dict) and not (node is not None and node.atomic_map):
        merged = dict(live)
        for key, value in config.items():
            child = node.child(key) if node is not None else None
            merged[key] = merge(child, live.get(key), value)
        return merged
    if isinstance(config, list) and isinstance(live, list) and node is not None:
        if node.list_type == "map":
            return _merge_keyed(node, live, config)
        if node.list_type == "set":
            return [*live, *without(config, live)]
    return config


def _merge_keyed(node: Node, live: list[Obj], config: list[Obj]) -> list[Obj]:
    """Elements in the order of the configuration, those it does not name where they stood before."""
    wanted = {element(node, item): item for item in config}
    before = {element(node, item): item for item in live}
    kept = [step for step in before if step not in wanted]
    merged = [merge(node.items, before.get(step), item) for step, item in wanted.items()]
    positions = first_places(before)
    for step in kept:
        merged.insert(min(positions[step], len(merged)), before[step])
    return merged


def remove(node: Node | None, value: Any, paths: set[FieldPath]) -> Any:
    """``value`` without the fields at these paths; what becomes empty by it goes too."""
    if not paths:
        return value
    steps: dict[str, set[FieldPath]] = {}
    for path in paths:
        steps.setdefault(path[0], set()).add(path[1:])
    if isinstance(value, dict):
        return _remove_members(node, value, steps)
    if isinstance(value, list) and node is not None:
        kept = []
        for item in value:
            step = element(node, item) if node.list_type == "map" else "v:" + _encode(item).decode()
            below = steps.get(step)
            if below is None:
                kept.append(item)
            elif (".",) not in below and () not in below:
                kept.append(remove(node.items, item, below))
        return kept
    return value


def _remove_members(node: Node | None, value: Obj, steps: dict[str, set[FieldPath]]) -> Obj:
    kept: Obj = {}
    for key, member in value.items():
        below = steps.get(f"f:{key}")
        if below is None:
            kept[key] = member
        elif () not in below:
            left = remove(node.child(key) if node is not None else None, member, below)
            if left not in ({}, []) or member == left:
                kept[key] = left
    return kept
