"""Connections that are kept open between requests, and no more of them than are needed."""

from __future__ import annotations

from asyncio import sslproto
from typing import Any, Final

from kai.kube.authorities import aiohttp

#: What is read of a connection at once. asyncio keeps a buffer of this size for each that is open, of 256 KiB
#: unless told otherwise, and makes another for each piece that it decrypts, which is of 16 KiB at most.
TLS_BUFFER_BYTES: Final = 32 * 2**10


def keep_buffers_small() -> None:
    """Have connections over TLS that are opened from now on read :data:`TLS_BUFFER_BYTES` at once.

    API servers open a connection for each review that is under way, and we open one to them for each write.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class NewestFirst(aiohttp.TCPConnector):
    """Takes the connection that was used last, so that those that only a burst needed idle, and are closed.

    The package takes the one that was idle longest: under traffic none ever idles for long, and there are
    always as many as there ever were.
    """

    async def _get(self, key: Any, traces: Any) -> Any:
        waiting = self._conns.get(key)
        if waiting:
            waiting.rotate(1)
        return await super()._get(key, traces)
