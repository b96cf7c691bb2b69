"""Names of columns as JSON spells them."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

import msgspec


def camel(name: str) -> str:
    """``pod_group`` as ``podGroup``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def fields_of(kind: type[Any]) -> tuple[Field[Any], ...]:
    """The fields of a row."""
    return fields(kind)


def as_json(row: Any) -> dict[str, Any]:
    """A row as an answer has it."""
    return {camel(each.name): getattr(row, each.name) for each in fields(row)}


#: Answers have their keys in the order in which they were made.
encode = msgspec.json.Encoder().encode
