"""How far an API server is with a kind."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from kai.kube import errors
from kai.kube.answers import page_of
from kai.kube.exchange import Exchange
from kai.kube.request import DEADLINE_SECONDS, Request
from kai.kube.resources import Resource

#: Also how the other way to write it begins (``metadata.name==x``), and not that of its opposite.
_NAME: Final = "metadata.name="


async def newest_version(exchange: Exchange, res: Resource, *, namespace: str, field_selector: str) -> str:
    """The version of a list of a kind, as the server tells it now; empty where a list has none.

    Asked in a single attempt, for a list of one object. Its version is that of all, whatever is selected; so
    of the selector only the name counts, on which rights to list may hang. By others the server might read
    every object to find one that matches.

    Raises:
        ApiError: the server refused.
        TransportError: there was no whole answer, or none in time, or it is no list.
    """
    named = ",".join(part for part in field_selector.split(",") if part.startswith(_NAME))
    request = Request(
        verb="list",
        resource=res.plural,
        subject=namespace,
        path=res.path(namespace),
        params={"limit": "1", **({"fieldSelector": named} if named else {})},
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            body = await exchange.once(request)
    except TimeoutError:
        server = exchange.transport.server
        raise errors.DeadlineExceeded(f"{request}: no answer of {server} in {DEADLINE_SECONDS:g} s") from None
    return page_of(body, msgspec.Raw, request=request).metadata.resource_version
