"""Keys of a definition that are nearly ones that count: read as absent they would change the grouping."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from kai.model import spelling

#: Keys of definitions that do not matter here, though they look like some that do.
_OF_OTHERS: Final = frozenset({"additionalChildKinds", "maxReplicasPath", "replicaSelector", "schemaVersion"})


def misspelt(content: Any, kind: type, place: str) -> Iterator[str]:
    """What is wrong with each key that is nearly a field of its struct; the rest is newer, or of others."""
    yield from _in(content, _shape(kind), place)


@cache
def _shape(kind: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(kind)


def _in(content: Any, shape: msgspec.inspect.Type, place: str) -> Iterator[str]:
    match shape:
        case msgspec.inspect.StructType() if isinstance(content, dict):
            fields = {field.encode_name: field.type for field in shape.fields}
            for key, value in content.items():
                here = f"{place}.{key}"
                if key in fields:
                    yield from _in(value, fields[key], here)
                elif key not in _OF_OTHERS and (near := spelling.nearest(str(key), fields)):
                    yield f"unknown key {here!r}; did you mean {near!r}?"
        case msgspec.inspect.ListType() if isinstance(content, list):
            for number, value in enumerate(content):
                yield from _in(value, shape.item_type, f"{place}[{number}]")
        case msgspec.inspect.UnionType():
            for option in shape.types:
                yield from _in(content, option, place)
