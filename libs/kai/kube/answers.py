"""What an API server answers, read as structs or as plain JSON."""

from __future__ import annotations

import functools
from typing import Any, Generic, TypeVar

import msgspec

from kai.kube import errors
from kai.kube.request import Request
from kai.kube.unreadable import simplified

T = TypeVar("T")


class ListMeta(msgspec.Struct, rename="camel"):
    """Where a list stands, and how to go on reading it."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One answer to a list request."""

    items: list[T] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


@functools.cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The decoder for a type, made once."""
    return msgspec.json.Decoder(kind)


def decoded(body: bytes, kind: Any, *, request: Request) -> Any:
    """The answer to a request, as a ``kind``.

    Raises:
        Unintelligible: it is none.
    """
    try:
        try:
            return decoder(kind).decode(body)
        except RecursionError:  # one object that is nested too deep hides no other in a list
            return decoder(kind).decode(simplified(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.Unintelligible(f"{request}: answer cannot be understood: {error}") from error
