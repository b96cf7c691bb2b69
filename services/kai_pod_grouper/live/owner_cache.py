"""Owners as they were read a short while ago, so that a gang costs one read and not one for each pod."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from kai.grouping.errors import ObjectNotFound, ReadForbidden, UnknownKind
from kai.grouping.objects.documents import Document, ObjectRef
from kai.kube import errors as kube
from kai.kube.client import KubeClient

#: Labels and annotations change by hand alone, and rarely; a change of size comes with new pods, or fewer.
FRESH_SECONDS: Final = 60.0
#: Where a change of the owner is awaited, as when it has a new pod; not 0, lest every pod of a gang reads it.
IMPATIENT_SECONDS: Final = 1.0
#: What is kept of them all, as JSON: owners are as large as somebody wants.
CAPACITY_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class _Entry:
    read_at: float
    size: int
    found: Document | ReadForbidden


class OwnerCache:
    """Reads through to the API server; concurrent reads of one owner are one request.

    What nobody may use any more is forgotten, also when nobody asks.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        #: In order of their reading.
        self._entries: OrderedDict[ObjectRef, _Entry] = OrderedDict()
        self._bytes = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._locks: WeakValueDictionary[ObjectRef, asyncio.Lock] = WeakValueDictionary()

    def now(self) -> float:
        """The moment, by the clock."""
        return self._clock()

    async def get(
        self, ref: ObjectRef, *, max_age: float = FRESH_SECONDS, since: float = -math.inf
    ) -> Document:
        """The owner, not older than ``max_age`` seconds and not read before ``since`` by the clock.

        That it may not be read is remembered as well, and changes with no pod that comes.

        Raises:
            ObjectNotFound, ReadForbidden, UnknownKind, KubeError
        """
        lock = self._locks.setdefault(ref, asyncio.Lock())
        async with lock:
            entry = self._entries.get(ref)
            if entry is None or not self._serves(entry, max_age, since):
                asked_at = self._clock()
                entry = self._remember(ref, await self._read(ref), asked_at)
        if isinstance(entry.found, ReadForbidden):
            raise ReadForbidden(str(entry.found))
        return entry.found

    def _serves(self, entry: _Entry, max_age: float, since: float) -> bool:
        if self._clock() - entry.read_at > max_age:
            return False
        return entry.read_at >= since or isinstance(entry.found, ReadForbidden)

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
            self._forget(ref)
            raise ObjectNotFound(f"{ref} ({ref.api_version}) does not exist") from None

    def _remember(self, ref: ObjectRef, found: Document | ReadForbidden, asked_at: float) -> _Entry:
        size = len(msgspec.json.encode(found.content)) if isinstance(found, Document) else len(str(found))
        entry = _Entry(asked_at, size, found)
        self._forget(ref)
        self._entries[ref] = entry
        self._bytes += size
        while self._bytes > CAPACITY_BYTES:
            self._forget(next(iter(self._entries)))
        self._expire_later()
        return entry

    def _forget(self, ref: ObjectRef) -> None:
        entry = self._entries.pop(ref, None)
        if entry is not None:
            self._bytes -= entry.size

    def _expire_later(self) -> None:
        if self._entries and self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(FRESH_SECONDS, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        old = self._clock() - FRESH_SECONDS
        for ref, entry in list(self._entries.items()):
            if entry.read_at > old:
                break
            self._forget(ref)
        self._expire_later()
