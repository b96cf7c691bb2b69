"""Two changes of one object as one: a newer status says what an older one, which still waits, would have."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kai.kube.ranks import Rank
from kai.kube.request import MERGE_PATCH, STRATEGIC_PATCH, Request

Json = dict[str, Any]

#: The lists of a status whose entries a strategic patch tells apart, by this field; those of pods and nodes.
_CONDITIONS: Final = "conditions"
_CONDITION_KEY: Final = "type"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class _Apart(Exception):
    """The two can only be sent one after the other."""


def may_join(request: Request) -> bool:
    """Whether this is a status that could be joined with another one of its object."""
    return request.rank is Rank.STATUS and request.content_type in (MERGE_PATCH, STRATEGIC_PATCH)


def joined(older: Request, newer: Request) -> bytes | None:
    """The body that does what both do, one after the other; None if there is none.

    Both are patches of one subresource of one object. They stay apart if they are not for the same version
    of it, and where the older one replaces what the newer one would change a part of.
    """
    if (older.content_type, older.params) != (newer.content_type, newer.params):
        return None
    assert older.data is not None
    assert newer.data is not None
    first, second = _decode(older.data), _decode(newer.data)
    if first.get("metadata") != second.get("metadata"):
        return None
    try:
        return _encode(_merge(first, second, strategic=newer.content_type == STRATEGIC_PATCH))
    except _Apart:
        return None


def _merge(older: Json, newer: Json, *, strategic: bool) -> Json:
    if strategic and any(key.startswith("$") for key in (*older, *newer)):
        raise _Apart  # a directive, which is no field
    merged = dict(older)
    for key, value in newer.items():
        merged[key] = _value(key, older, value, strategic=strategic)
    return merged


def _value(key: str, older: Json, value: Any, *, strategic: bool) -> Any:
    if strategic and isinstance(value, list):
        return _listed(key, older, value)
    if not isinstance(value, dict) or key not in older:
        return value
    if not isinstance(older[key], dict):
        raise _Apart
    return _merge(older[key], value, strategic=strategic)


def _listed(key: str, older: Json, value: Any) -> Any:
    """Conditions by their types; of other lists a strategic patch does not say how they are to be joined."""
    former = older.get(key, [])
    if key != _CONDITIONS or not _are_conditions(former) or not _are_conditions(value):
        raise _Apart
    found = {condition[_CONDITION_KEY]: condition for condition in former}
    for condition in value:
        kind = condition[_CONDITION_KEY]
        found[kind] = _merge(found.get(kind, {}), condition, strategic=True)
    return list(found.values())


def _are_conditions(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get(_CONDITION_KEY), str) for entry in value
    )
