"""How much an object holds on to: elements of all tables that can be reached from it."""

from __future__ import annotations

import types
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np

_CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
_OPAQUE: Final = (str, bytes, int, float, bool, type(None), type, types.ModuleType, types.FunctionType)


def footprint(*roots: object) -> Counter[str]:
    """Elements by where they are: ``Class.attribute`` of the object that has the table, whatever is in it."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(root).__name__, root) for root in roots]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, _OPAQUE) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found[where] += value.size
        elif isinstance(value, _CONTAINERS):
            found[where] += len(value)
            items: Iterable[Any] = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            waiting += [(where, item) for item in items]
        else:
            waiting += [(f"{type(value).__name__}.{name}", part) for name, part in _parts(value)]
    return found


def _parts(value: object) -> Iterable[tuple[str, Any]]:
    names = list(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        names += [name for name in getattr(cls, "__slots__", ()) if name not in ("__weakref__", "__dict__")]
    if isinstance(value, msgspec.Struct):
        names += value.__struct_fields__
    for name in dict.fromkeys(names):
        try:
            yield name, getattr(value, name)
        except AttributeError:  # a slot that nothing was put into
            continue
