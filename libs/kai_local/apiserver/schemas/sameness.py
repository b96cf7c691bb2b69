"""Equal JSON values found by look-up, so that long lists are not compared each element with each."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def fingerprint(value: Any) -> str | bytes:
    """What two values have in common if they are the same in JSON, and only then."""
    return value if isinstance(value, str) else _encode(value)


def first_places(values: Iterable[Any]) -> dict[str | bytes, int]:
    """Where each value, by its fingerprint, comes first."""
    found: dict[str | bytes, int] = {}
    for place, value in enumerate(values):
        found.setdefault(fingerprint(value), place)
    return found


def without(values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """The values that are not among the others, in order."""
    known = {fingerprint(other) for other in others}
    return [value for value in values if fingerprint(value) not in known]
