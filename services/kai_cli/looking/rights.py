"""What the user of a kubeconfig may read, as the API server says it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.resources import (
    POD_GROUPS,
    PODS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    Resource,
)
from kai_insight.http.access import Access, Caller, resource_name

#: Reviews that are under way at once.
_AT_ONCE = 8
_VERBS = ("list", "watch")


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


@dataclass(frozen=True, slots=True)
class Readable:
    """What may be followed: which kinds, and pods and pod groups of which namespace (empty: of all)."""

    kinds: frozenset[Resource]
    namespace: str
    #: Kinds that may not be read, as roles name them.
    missing: tuple[str, ...]

    @property
    def lacks(self) -> str:
        """What is not seen, in a sentence; empty where nothing is missing."""
        parts = [f"you may not list and watch {', '.join(self.missing)}"] if self.missing else []
        if self.namespace:
            parts.append(
                f"pods and pod groups are those of the namespace {self.namespace}, as you may not read all"
            )
        return "; ".join(parts)


async def readable(client: KubeClient, kinds: Iterable[Resource]) -> Readable:
    """Ask what may be followed of these kinds.

    Raises:
        KubeError: the API server does not say.
    """
    turn = asyncio.Semaphore(_AT_ONCE)

    async def may(kind: Resource, namespace: str = "") -> bool:
        async with turn:
            return all([await _may(client, kind, verb, namespace) for verb in _VERBS])

    wanted = list(dict.fromkeys(kinds))
    allowed = dict(zip(wanted, await asyncio.gather(*map(may, wanted)), strict=True))
    namespace = ""
    of_namespaces = (PODS, POD_GROUPS)
    if not all(allowed[each] for each in of_namespaces):
        within = client.namespace or "default"
        if all(await asyncio.gather(*(may(each, within) for each in of_namespaces))):
            namespace = within
            allowed |= dict.fromkeys(of_namespaces, True)
    return Readable(
        kinds=frozenset(kind for kind, yes in allowed.items() if yes),
        namespace=namespace,
        missing=tuple(sorted(resource_name(kind) for kind, yes in allowed.items() if not yes)),
    )


async def _may(client: KubeClient, kind: Resource, verb: str, namespace: str) -> bool:
    asked = {
        "verb": verb,
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
        "namespace": namespace,
    }
    spec = {"spec": {"resourceAttributes": asked}}
    found = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, spec, type=_Review)
    return found.status.allowed


async def own_name(client: KubeClient) -> str:
    """Who the API server takes us for; empty where it does not say."""
    try:
        found: dict[str, Any] = await client.create(SELF_SUBJECT_REVIEWS, {})
    except KubeError:  # of older servers: it is only shown
        return ""
    info = (found.get("status") or {}).get("userInfo") or {}
    return str(info.get("username", ""))


class OwnRights(Access):
    """Of the one caller that there is: what is followed he may see, since it was read with his rights."""

    def __init__(self, client: KubeClient, found: Readable) -> None:
        super().__init__(client)
        self._found = found

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool:
        """Whether a kind is followed; with a namespace, whether it is in that one."""
        del caller
        if resource not in self._found.kinds:
            return False
        narrowed = self._found.namespace if resource in (PODS, POD_GROUPS) else ""
        return not narrowed or namespace == narrowed
