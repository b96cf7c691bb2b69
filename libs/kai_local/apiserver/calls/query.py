"""What stands in the query of a request."""

from collections.abc import Mapping
from typing import Final

from kai_local.apiserver.errors import bad_request

_TRUE: Final = frozenset({"true", "1", "True", "t", "T", "TRUE"})


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean."""
    return query.get(name, "") in _TRUE


def number(query: Mapping[str, str], name: str) -> int | None:
    """An integer, None where it is absent. Raises ApiFailure (400)."""
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f"invalid value for {name}: {text!r} is not a number") from error
