"""Owners as they were read a short while ago, so that a gang costs one read and not one for each pod."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from kai.kube import errors as kube
from kai.kube.client import KubeClient
from kai_pod_grouper.errors import ObjectNotFound, ReadForbidden, UnknownKind
from kai_pod_grouper.objects.documents import Document, ObjectRef

#: A gang's pods come within seconds; a change of the owner that matters comes with new pods, later.
FRESH_SECONDS: Final = 60.0
#: Where a change of the owner is awaited; not 0, lest every pod of a gang reads it again.
IMPATIENT_SECONDS: Final = 1.0
_CAPACITY: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Entry:
    read_at: float
    found: Document | ReadForbidden


class OwnerCache:
    """Reads through to the API server; concurrent reads of one owner are one request."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._entries: OrderedDict[ObjectRef, _Entry] = OrderedDict()
        self._locks: WeakValueDictionary[ObjectRef, asyncio.Lock] = WeakValueDictionary()

    async def get(self, ref: ObjectRef, *, max_age: float = FRESH_SECONDS) -> Document:
        """The owner, not older than ``max_age`` seconds. That it may not be read is remembered as well.

        Raises:
            ObjectNotFound, ReadForbidden, UnknownKind, KubeError
        """
        lock = self._locks.setdefault(ref, asyncio.Lock())
        async with lock:
            entry = self._entries.get(ref)
            if entry is None or self._clock() - entry.read_at > max_age:
                entry = _Entry(self._clock(), await self._read(ref))
                self._remember(ref, entry)
        if isinstance(entry.found, ReadForbidden):
            raise ReadForbidden(str(entry.found))
        return entry.found

    async def _read(self, ref: ObjectRef) -> Document | ReadForbidden:
        try:
            resource = await self._client.discover(ref.api_version, ref.kind)
            if resource is None:
                raise UnknownKind(f"{ref}: the API server does not serve {ref.kind} of {ref.api_version}")
            namespace = ref.namespace if resource.namespaced else ""
            return Document.of_body(await self._client.get(resource, ref.name, namespace=namespace))
        except kube.Forbidden:
            return ReadForbidden(f"{ref} ({ref.api_version}) may not be read by our role")
        except kube.NotFound:
            self._entries.pop(ref, None)
            raise ObjectNotFound(f"{ref} ({ref.api_version}) does not exist") from None

    def _remember(self, ref: ObjectRef, entry: _Entry) -> None:
        self._entries[ref] = entry
        self._entries.move_to_end(ref)
        if len(self._entries) > _CAPACITY:
            self._entries.popitem(last=False)
