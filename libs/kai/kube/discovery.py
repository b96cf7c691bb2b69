"""Which kinds an API server serves, and under which names."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import msgspec

from kai.kube import errors
from kai.kube.answers import decoded
from kai.kube.exchange import Exchange
from kai.kube.request import DEADLINE_SECONDS, Request
from kai.kube.resources import Resource

#: Group and version are names of at most 253 and 63 characters.
_LONGEST_VERSION: Final = 317
#: Anything else would be another path, or a query; references to owners say whatever somebody writes there.
_NAMES: Final = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource]


class Discovery:
    """Asks for a version of a group once, and remembers what it has."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        #: By version when it was asked for, and what it has by kind.
        self._known: dict[str, tuple[float, dict[str, Resource]]] = {}

    async def find(self, api_version: str, kind: str, *, max_age: float) -> Resource | None:
        """The resource of a manifest's ``apiVersion`` and ``kind``; None if the server does not serve it.

        What was found is kept; what was not found is asked for again after ``max_age`` seconds.
        """
        if len(api_version) > _LONGEST_VERSION or not _NAMES.fullmatch(api_version):
            return None
        now = asyncio.get_running_loop().time()
        asked, found = self._known.get(api_version, (now - max_age, {}))
        if kind not in found and now - asked >= max_age:
            found = await self._ask(api_version)
            self._forget_unserved(now - max_age)
            self._known[api_version] = (now, found)
        return found.get(kind)

    def _forget_unserved(self, since: float) -> None:
        """Versions that are not served have names that anybody makes up, as in references to owners."""
        for version, (asked, found) in list(self._known.items()):
            if not found and asked <= since:
                del self._known[version]

    async def _ask(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        request = Request(verb="get", resource="discovery", subject=api_version, path=path)
        try:
            body = await self._exchange.call(request, deadline=DEADLINE_SECONDS)
        except errors.NotFound:
            return {}
        answer: _ApiResourceList = decoded(body, _ApiResourceList, request=request)
        return {
            entry.kind: Resource(group, version, entry.name, entry.kind, entry.namespaced)
            for entry in answer.resources
            if "/" not in entry.name
        }
