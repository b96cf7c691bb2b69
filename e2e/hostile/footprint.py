"""How much an object holds on to: elements of all tables that can be reached from it."""

from __future__ import annotations

import asyncio
import types
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np

_CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
_OPAQUE: Final = (str, bytes, int, float, bool, type(None), type, types.ModuleType, asyncio.AbstractEventLoop)


def footprint(*roots: object, but: tuple[type, ...] = ()) -> Counter[str]:
    """Elements by where they are: ``Class.attribute`` of the object that has the table, whatever is in it.

    What functions, methods and tasks hold on to counts, under their names. ``but``: what belongs to others.
    """
    found: Counter[str] = Counter()
    # Kept alive, as the next object might get the number of one that is gone.
    seen: dict[int, object] = {}
    waiting: list[tuple[str, Any]] = [(type(root).__name__, root) for root in roots]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, (*_OPAQUE, *but)) or id(value) in seen:
            continue
        seen[id(value)] = value
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
    match value:
        case types.FunctionType():
            yield from zip(value.__code__.co_freevars, map(_content, value.__closure__ or ()), strict=True)
            return
        case types.MethodType():
            yield from (("of", value.__self__), ("does", value.__func__))
            return
        case asyncio.Task():
            yield "does", value.get_coro()
            return
        case asyncio.TaskGroup():
            yield "runs", value._tasks
            return
        case types.CoroutineType():
            yield from _locals(value.cr_frame)
            yield "awaits", value.cr_await
            return
        case types.AsyncGeneratorType():
            yield from _locals(value.ag_frame)
            yield "awaits", value.ag_await
            return
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


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put into it yet
        return None


def _locals(frame: types.FrameType | None) -> Iterable[tuple[str, Any]]:
    return frame.f_locals.items() if frame is not None else ()
