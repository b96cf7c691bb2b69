"""Which kinds an API server serves, and under which names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from kai.kube import errors
from kai.kube.answers import decoded
from kai.kube.exchange import Exchange
from kai.kube.request import DEADLINE_SECONDS, Request
from kai.kube.resources import Resource
from kai.model import kinds
from kai.model.words import listed

#: For what one version has, where all are asked: who serves a group for the server may be down for days.
VERSION_DEADLINE_SECONDS: Final = 5.0
#: Group and version are names of at most 253 and 63 characters.
_LONGEST_VERSION: Final = 317
#: Anything else would be another path, or a query; references to owners say whatever somebody writes there.
_NAMES: Final = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class _ApiResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    singular_name: str = ""
    short_names: list[str] | None = None

    def is_called(self, word: str) -> bool:
        """Whether this is one of its names, in lower case."""
        return word in (self.name, self.singular_name, self.kind.lower(), *(self.short_names or ()))


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource]


class _ServedVersion(msgspec.Struct, rename="camel"):
    group_version: str
    version: str


class _ApiGroup(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_ServedVersion]
    preferred_version: _ServedVersion | None = None

    def best_first(self) -> list[_ServedVersion]:
        """All versions, the preferred one first."""
        return sorted(self.versions, key=lambda each: each != self.preferred_version)


class _ApiGroupList(msgspec.Struct):
    groups: list[_ApiGroup]


#: Not among the groups: it is older than they are.
_CORE: Final = _ApiGroup("", [_ServedVersion("v1", "v1")])


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

    async def called(self, word: str) -> Resource | None:
        """The first resource of that name as kubectl goes by it; None if the server serves none.

        ``word`` is in lower case: a plural, singular or short name or a kind, and ``.group`` or
        ``.version.group`` if it shall be of that one. A version that does not answer within seconds is passed
        over where another has the resource.

        Raises:
            Unanswered: none that answered has it, and some did not answer.
            KubeError: the server does not tell which groups it serves.
        """
        name, _, rest = word.partition(".")
        wanted = [
            version.group_version
            for group in (_CORE, *await self._groups())
            for version in group.best_first()
            if kinds.is_of(rest, group=group.name, version=version.version)
        ]
        async with asyncio.TaskGroup() as asking:
            answers = [asking.create_task(self._offered(version)) for version in wanted]
        failed: dict[str, errors.KubeError] = {}
        for version, answer in zip(wanted, answers, strict=True):
            offered = answer.result()
            if isinstance(offered, errors.KubeError):
                failed[version] = offered
                continue
            for entry in offered:
                if entry.is_called(name):
                    return _resource(version, entry)
        if failed:
            first = next(iter(failed.values()))
            raise errors.Unanswered(f"{listed(list(failed))} gave no answer ({first})") from first
        return None

    async def _groups(self) -> list[_ApiGroup]:
        request = Request(verb="get", resource="discovery", path="/apis")
        body = await self._exchange.call(request, deadline=DEADLINE_SECONDS)
        found: _ApiGroupList = decoded(body, _ApiGroupList, request=request)
        return found.groups

    async def _offered(self, api_version: str) -> Sequence[_ApiResource] | errors.KubeError:
        """What a version has, or why it is not known."""
        try:
            body = await self._exchange.call(_request(api_version), deadline=VERSION_DEADLINE_SECONDS)
            return _entries(body, api_version)
        except errors.NotFound:  # the version is served no longer
            return ()
        except errors.KubeError as error:
            return error

    def _forget_unserved(self, since: float) -> None:
        """Versions that are not served have names that anybody makes up, as in references to owners."""
        for version, (asked, found) in list(self._known.items()):
            if not found and asked <= since:
                del self._known[version]

    async def _ask(self, api_version: str) -> dict[str, Resource]:
        try:
            body = await self._exchange.call(_request(api_version), deadline=DEADLINE_SECONDS)
        except errors.NotFound:
            return {}
        return {entry.kind: _resource(api_version, entry) for entry in _entries(body, api_version)}


def _request(api_version: str) -> Request:
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return Request(verb="get", resource="discovery", subject=api_version, path=path)


def _entries(body: bytes, api_version: str) -> list[_ApiResource]:
    """What a version has, without parts of objects."""
    answer: _ApiResourceList = decoded(body, _ApiResourceList, request=_request(api_version))
    return [entry for entry in answer.resources if "/" not in entry.name]


def _resource(api_version: str, entry: _ApiResource) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, entry.name, entry.kind, entry.namespaced)
