"""Answers as bytes, packed for those who take them so, outside of the loop."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

from aiohttp import hdrs, web

from kai_insight.http.remembered import Remembered

#: What is shorter is not worth it.
LEAST: Final = 1400
_LEVEL: Final = 6
#: Packed frames that are kept, for those who ask for the same.
_MOST_KEPT: Final = 16
_KEPT_SECONDS: Final = 60.0


class Packer:
    """Packs answers; what has a ``version`` is packed once for all who ask for it."""

    def __init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self._kept = Remembered[str, bytes](seconds=_KEPT_SECONDS, most=_MOST_KEPT, clock=clock)

    async def json(self, request: web.Request, body: bytes, *, version: str = "") -> web.Response:
        """An answer in JSON, as the request takes it."""
        response = web.Response(content_type="application/json")
        response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if len(body) < LEAST or not takes_gzip(request):
            response.body = body
            return response
        response.headers[hdrs.CONTENT_ENCODING] = "gzip"
        packed = self._kept.get(version) if version else None
        if packed is None:
            packed = await asyncio.to_thread(gzip.compress, body, _LEVEL)
            if version:
                self._kept.put(version, packed)
        response.body = packed
        return response


def takes_gzip(request: web.Request) -> bool:
    """Whether whoever asks takes packed answers."""
    for each in request.headers.get(hdrs.ACCEPT_ENCODING, "").split(","):
        name, _, weight = each.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
