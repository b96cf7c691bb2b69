"""What a watch is made of: its lines, its events, and who the objects in them are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from kai.kube import errors
from kai.kube.authorities import aiohttp
from kai.kube.resources import Resource
from kai.kube.unreadable import Identity, identity, simplified


class Event(msgspec.Struct):
    """One line of a watch; what the object is depends on the type."""

    type: str
    object: msgspec.Raw


class BookmarkMeta(msgspec.Struct, rename="camel"):
    """All that a bookmark has to say."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct):
    """The object of a BOOKMARK: none, but how far the watch is."""

    metadata: BookmarkMeta


class NoInitialEvents(Exception):
    """The server took the request for initial events for an ordinary watch."""


EVENT = msgspec.json.Decoder(Event)
BOOKMARK = msgspec.json.Decoder(Bookmark)
_STATUS = msgspec.json.Decoder(errors.Status)


def identity_within(obj: msgspec.Raw) -> Identity:
    """Who an object is of which nothing else can be read, however deep it is nested."""
    try:
        return identity(bytes(obj))
    except msgspec.DecodeError:
        return identity(simplified(bytes(obj)))


async def lines_of(
    stream: aiohttp.StreamReader, patience: Callable[[], float | None]
) -> AsyncIterator[list[bytes]]:
    """Whole lines, in batches as large as they arrive; an unfinished last line is dropped.

    Raises:
        NoInitialEvents: nothing came for ``patience()`` seconds.
    """
    rest = b""
    while True:
        try:
            async with asyncio.timeout(patience()):
                chunk = await stream.readany()
        except aiohttp.ServerTimeoutError:
            raise
        except TimeoutError:
            raise NoInitialEvents from None
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines


def identify_struct(obj: Any) -> tuple[str, str, str]:
    """Key, uid, and resource version of a struct with ``key`` and ``metadata``."""
    metadata = obj.metadata
    return obj.key, metadata.uid, metadata.resource_version


def identify_json(obj: Any) -> tuple[str, str, str]:
    """The same of plain JSON."""
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    key = f"{namespace}/{name}" if namespace else name
    return key, metadata.get("uid", ""), metadata.get("resourceVersion", "")


def watch_error(raw: msgspec.Raw, resource: Resource) -> errors.ApiError:
    """What the object of an ERROR says."""
    status = _STATUS.decode(raw)
    return errors.api_error(status.code or 500, bytes(raw), request=f"watch {resource.plural}")
