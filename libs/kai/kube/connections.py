"""Connections that are kept open between requests, and no more of them than are needed."""

from __future__ import annotations

from typing import Any

from kai.kube.authorities import aiohttp


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
