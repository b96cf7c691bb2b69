"""All objects, in memory, under one monotonically rising resourceVersion.

An object is immutable once stored; each write makes a new ``Record`` with its JSON, which readers and
watchers share. Every write is one synchronous step, so nothing is ever seen half-done.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final, Literal

import msgspec

from kai_local.apiserver.errors import Obj

ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""

_encode: Final = msgspec.json.Encoder().encode


class Record:
    """One version of one object and its JSON; forms in other API versions are made when asked for."""

    __slots__ = ("_forms", "creator", "name", "namespace", "obj", "raw", "uid", "version")

    def __init__(self, obj: Obj, version: int, creator: str = "") -> None:
        metadata = obj["metadata"]
        self.obj = obj
        self.version = version
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.raw = _encode(obj)
        self.creator = creator
        self._forms: dict[object, bytes] | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    def item(self, convert: Callable[[Obj], Obj] | None, *, typed: bool) -> bytes:
        """The JSON as it stands in a list, where items of built-in kinds do not repeat kind and
        apiVersion.
        """
        raw = self.form(convert)
        if typed:
            return raw
        start = raw.find(b'"metadata":')
        return b"{" + raw[start:]

    def form(self, convert: Callable[[Obj], Obj] | None) -> bytes:
        """The JSON of the object after ``convert``."""
        if convert is None:
            return self.raw
        if self._forms is None:
            self._forms = {}
        raw = self._forms.get(convert)
        if raw is None:
            raw = self._forms[convert] = _encode(convert(self.obj))
        return raw


def _moved(obj: Obj, version: int) -> Record:
    """The same state under a later version."""
    metadata = {**obj["metadata"], "resourceVersion": str(version)}
    return Record({**obj, "metadata": metadata}, version)


class Change:
    """A write as watchers see it. ``previous`` is what stood there before, None for a new object."""

    __slots__ = ("_departed", "_lines", "kind", "previous", "record", "version")

    def __init__(self, kind: ChangeKind, record: Record, previous: Record | None) -> None:
        self.kind = kind
        self.record = record
        self.previous = previous
        self.version = record.version
        self._lines: dict[tuple[str, object], bytes] = {}
        self._departed: Record | None = None

    def line(self, kind: ChangeKind, convert: Callable[[Obj], Obj] | None) -> bytes:
        """The watch event in JSON, made once for all watchers that see it as ``kind``."""
        line = self._lines.get((kind, convert))
        if line is None:
            line = b'{"type":"%s","object":%s}\n' % (kind.encode(), self.seen_as(kind).form(convert))
            self._lines[kind, convert] = line
        return line

    def seen_as(self, kind: ChangeKind) -> Record:
        """The object as a watcher gets it: one that left its selection gets the last state that it had
        there.
        """
        if kind != "DELETED" or self.kind == "DELETED" or self.previous is None:
            return self.record
        if self._departed is None:
            self._departed = _moved(self.previous.obj, self.version)
        return self._departed


class Collection:
    """The objects of one resource, and its latest changes (at least ``window`` of them once there are so
    many).
    """

    def __init__(self, store: "Store", window: int) -> None:
        self._store = store
        self._window = window
        self._spaces: dict[str, dict[str, Record]] = {}
        self._sorted: dict[str, list[Record]] = {}
        self.changes: list[Change] = []
        self.floor = store.first
        """Changes up to this version are forgotten: a watch from before it must start anew."""
        self.listeners: list[Callable[[Change], None]] = []
        self.count = 0

    def get(self, namespace: str, name: str) -> Record | None:
        """The object, or None."""
        space = self._spaces.get(namespace)
        return space.get(name) if space is not None else None

    def records(self, namespace: str = "") -> list[Record]:
        """Objects in the order of their keys: of one namespace, or all when it is empty.

        Not to be changed.
        """
        if namespace:
            return self._in_order(namespace)
        if len(self._spaces) == 1:
            return self._in_order(next(iter(self._spaces)))
        return [record for space in sorted(self._spaces) for record in self._in_order(space)]

    def _in_order(self, namespace: str) -> list[Record]:
        space = self._spaces.get(namespace)
        if space is None:
            return []
        ordered = self._sorted.get(namespace)
        if ordered is None:
            ordered = self._sorted[namespace] = sorted(space.values(), key=attrgetter("name"))
        return ordered

    def put(self, obj: Obj, creator: str = "") -> Record:
        """Store the object under its key; its metadata, which must be the caller's own, gets the new
        version.
        """
        version = self._store.advance()
        obj["metadata"]["resourceVersion"] = str(version)
        record = Record(obj, version, creator)
        space = self._spaces.setdefault(record.namespace, {})
        previous = space.get(record.name)
        if previous is not None:
            record.creator = previous.creator
        space[record.name] = record
        self._sorted.pop(record.namespace, None)
        if previous is None:
            self.count += 1
        self._announce(Change("MODIFIED" if previous else "ADDED", record, previous))
        return record

    def remove(self, record: Record, last: Obj | None = None) -> Record:
        """Forget the object; returns its last state (``last`` if given) with the version of the removal."""
        version = self._store.advance()
        space = self._spaces[record.namespace]
        del space[record.name]
        if not space:
            del self._spaces[record.namespace]
        self._sorted.pop(record.namespace, None)
        self.count -= 1
        gone = _moved(last or record.obj, version)
        self._announce(Change("DELETED", gone, record))
        return gone

    def _announce(self, change: Change) -> None:
        self.changes.append(change)
        if len(self.changes) >= 2 * self._window:
            self._forget(len(self.changes) - self._window)
        for listener in self.listeners:
            listener(change)

    def compact(self) -> None:
        """Forget all past changes: watches from an older version get 410."""
        self._forget(len(self.changes))
        self.floor = self._store.version

    def _forget(self, count: int) -> None:
        if count:
            self.floor = self.changes[count - 1].version
            del self.changes[:count]


class Store:
    """Collections by group and plural, one version counter for all, which starts after ``first``."""

    def __init__(self, window: int = 1024, first: int = 1000) -> None:
        self.first = first
        self.version = first
        self._window = window
        self._collections: dict[tuple[str, str], Collection] = {}
        self.on_new_collection: list[Callable[[tuple[str, str], Collection], None]] = []

    def advance(self) -> int:
        """The next resourceVersion."""
        self.version += 1
        return self.version

    def collection(self, key: tuple[str, str]) -> Collection:
        """The collection of a resource, made when first asked for."""
        found = self._collections.get(key)
        if found is None:
            found = self._collections[key] = Collection(self, self._window)
            for listener in self.on_new_collection:
                listener(key, found)
        return found

    def begin_at(self, version: int) -> None:
        """Start after this version instead; nothing may be stored yet."""
        self.first = self.version = version
        for collection in self._collections.values():
            assert not collection.count, "the store is empty"
            collection.floor = version

    def collections(self) -> dict[tuple[str, str], Collection]:
        """Every collection, by group and plural."""
        return dict(self._collections)
