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


def page_of(body: bytes, kind: Any, *, request: Request) -> Page[Any]:
    """The answer to a request for a list, with objects as a ``kind``.

    Raises:
        TransportError: it is no list, though it is no refusal either.
    """
    page: Page[Any] = decoded(body, Page[kind], request=request)
    if page.items is None and not page.metadata.resource_version:
        raise errors.TransportError(f"{request}: the answer is no list; is a proxy in between?")
    return page
