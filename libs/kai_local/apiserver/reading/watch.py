"""Watches: who is told of which change, and the stream that tells it."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from aiohttp import web

from kai_local.apiserver.errors import ApiFailure, Obj, expired
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.kinds.selectors import Selection
from kai_local.apiserver.store.storage import Change, ChangeKind, Collection, Record, Store

QUEUE_LIMIT: Final = 50_000
"""Changes that one watcher may be behind before its stream is ended."""
BOOKMARK_PERIOD: Final = 60.0
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_NODE_NAME: Final = "spec.nodeName"


class Renderer(Protocol):
    """How events look to one watcher: objects in one API version, or rows of a table."""

    def lines(self, events: list[tuple[ChangeKind, Change]]) -> bytes:
        """The events, one JSON document a line."""
        ...

    def added(self, records: list[Record]) -> bytes:
        """The objects that exist when the watch starts."""
        ...


class Watcher:
    """The changes that one client has yet to be told of."""

    __slots__ = ("_wake", "behind", "closed", "pending", "selection")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.pending: list[tuple[ChangeKind, Change]] = []
        self.closed = False
        self.behind = False
        self._wake = asyncio.Event()

    def offer(self, change: Change) -> None:
        """Note the change if it concerns this watcher."""
        matches = self.selection.matches
        previous = change.previous
        before = previous is not None and matches(previous)
        after = change.kind != "DELETED" and matches(change.record)
        if not (before or after):
            return
        kind: ChangeKind = "DELETED" if not after else "MODIFIED" if before else "ADDED"
        self.pending.append((kind, change))
        if len(self.pending) > QUEUE_LIMIT:
            self.behind = True
            self.close()
        self._wake.set()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self._wake.set()

    def wake(self) -> None:
        """Let the stream look at the time."""
        self._wake.set()

    async def wait(self) -> None:
        """Until there is something to do."""
        await self._wake.wait()
        self._wake.clear()

    def take(self) -> list[tuple[ChangeKind, Change]]:
        """What is pending, handed over."""
        taken, self.pending = self.pending, []
        return taken


class Hub:
    """The watchers of one collection; those bound to one name or one node are only asked about those."""

    def __init__(self, collection: Collection) -> None:
        self._general: dict[Watcher, None] = {}
        self._named: dict[str, dict[Watcher, None]] = {}
        self._on_node: dict[str, dict[Watcher, None]] = {}
        collection.listeners.append(self._dispatch)

    def __len__(self) -> int:
        return len(list(self.watchers()))

    def watchers(self) -> list[Watcher]:
        """Everyone who watches."""
        groups = [self._general, *self._named.values(), *self._on_node.values()]
        return [watcher for group in groups for watcher in group]

    def _group(self, selection: Selection) -> tuple[dict[str, dict[Watcher, None]] | None, str]:
        name = selection.required("metadata.name")
        if name is not None:
            return self._named, name
        node = selection.required(_NODE_NAME)
        if node:
            return self._on_node, node
        return None, ""

    def add(self, watcher: Watcher) -> None:
        """Tell this watcher from now on."""
        groups, value = self._group(watcher.selection)
        group = self._general if groups is None else groups.setdefault(value, {})
        group[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Tell it no more."""
        groups, value = self._group(watcher.selection)
        if groups is None:
            self._general.pop(watcher, None)
            return
        group = groups.get(value, {})
        group.pop(watcher, None)
        if not group:
            groups.pop(value, None)

    def _dispatch(self, change: Change) -> None:
        for watcher in self._general:
            watcher.offer(change)
        if self._named:
            for watcher in self._named.get(change.record.name, ()):
                watcher.offer(change)
        if self._on_node:
            nodes = {dig(change.record.obj, "spec", "nodeName")}
            if change.previous is not None:
                nodes.add(dig(change.previous.obj, "spec", "nodeName"))
            for node in nodes:
                for watcher in self._on_node.get(node or "", ()):
                    watcher.offer(change)


class Hubs:
    """The hub of every collection."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hubs: dict[tuple[str, str], Hub] = {}

    def of(self, key: tuple[str, str]) -> Hub:
        """The hub of a resource."""
        hub = self._hubs.get(key)
        if hub is None:
            hub = self._hubs[key] = Hub(self._store.collection(key))
        return hub

    def close(self, key: tuple[str, str] | None = None) -> int:
        """End the watches of one resource, or all; returns how many."""
        hubs = [self._hubs[key]] if key in self._hubs else list(self._hubs.values()) if key is None else []
        watchers = [watcher for hub in hubs for watcher in hub.watchers()]
        for watcher in watchers:
            watcher.close()
        return len(watchers)

    def counts(self) -> dict[str, int]:
        """Watchers by resource."""
        return {
            ".".join(filter(None, reversed(key))): len(hub) for key, hub in self._hubs.items() if len(hub)
        }


class ObjectRenderer:
    """Events that carry whole objects."""

    def __init__(self, convert: Callable[[Obj], Obj] | None) -> None:
        self._convert = convert

    def lines(self, events: list[tuple[ChangeKind, Change]]) -> bytes:
        """One watch event a line."""
        convert = self._convert
        return b"".join([change.line(kind, convert) for kind, change in events])

    def added(self, records: list[Record]) -> bytes:
        """ADDED events of the objects that are there."""
        return b"".join(
            [b'{"type":"ADDED","object":%s}\n' % record.form(self._convert) for record in records]
        )


class WatchRequest(msgspec.Struct, frozen=True):
    """The options of a watch; times in seconds."""

    since: str
    timeout: float
    bookmarks: bool
    send_initial: bool
    api_version: str
    kind: str


def _bookmark(request: WatchRequest, version: int, *, initial: bool = False) -> bytes:
    metadata: Obj = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    obj = {"kind": request.kind, "apiVersion": request.api_version, "metadata": metadata}
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def error_line(failure: ApiFailure) -> bytes:
    """The last event of a watch that cannot go on."""
    return msgspec.json.encode({"type": "ERROR", "object": failure.status()}) + b"\n"


def _start(
    collection: Collection, store: Store, selection: Selection, request: WatchRequest, renderer: Renderer
) -> tuple[bytes, list[Change]]:
    """What the stream begins with, and the changes to replay.

    Raises ApiFailure (410) for a version too old.
    """
    since = request.since
    if request.send_initial or since in ("", "0"):
        records = [record for record in collection.records(selection.namespace) if selection.matches(record)]
        first = renderer.added(records)
        if request.send_initial and request.bookmarks:
            first += _bookmark(request, store.version, initial=True)
        return first, []
    version = int(since)
    if version < collection.floor:
        raise expired(f"too old resource version: {version} ({collection.floor})")
    return b"", [change for change in collection.changes if change.version > version]


async def serve(
    http: web.BaseRequest,
    *,
    resource: Resource,
    collection: Collection,
    hub: Hub,
    store: Store,
    selection: Selection,
    request: WatchRequest,
    renderer: Renderer,
) -> web.StreamResponse:
    """Stream events until the time is up, the client leaves, or the watcher is closed."""
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    )
    watcher = Watcher(selection)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout
    hub.add(watcher)
    try:
        try:
            first, missed = _start(collection, store, selection, request, renderer)
        except ApiFailure as failure:
            await response.prepare(http)
            await response.write(error_line(failure))
            return response
        for change in missed:
            watcher.offer(change)
        await response.prepare(http)
        if first:
            await response.write(first)
        await _follow(response, watcher, request, renderer, store, deadline)
    except ConnectionError:
        pass  # the client has gone
    finally:
        hub.remove(watcher)
    return response


def _next_bookmark(now: float, deadline: float) -> float:
    """Every minute, and once shortly before the end, so that the client can go on from there."""
    left = deadline - now
    last = deadline - min(2.0, left / 2)
    return min(now + BOOKMARK_PERIOD, last) if left > 0.6 else deadline + BOOKMARK_PERIOD


async def _follow(
    response: web.StreamResponse,
    watcher: Watcher,
    request: WatchRequest,
    renderer: Renderer,
    store: Store,
    deadline: float,
) -> None:
    loop = asyncio.get_running_loop()
    ends = loop.call_at(deadline, watcher.wake)
    next_bookmark = _next_bookmark(loop.time(), deadline)
    reminder = loop.call_at(next_bookmark, watcher.wake) if request.bookmarks else None
    try:
        while not watcher.behind:
            events = watcher.take()
            if events:
                await response.write(renderer.lines(events))
                continue
            now = loop.time()
            if watcher.closed or now >= deadline:
                return
            if reminder is not None and now >= next_bookmark:
                next_bookmark = _next_bookmark(now, deadline)
                reminder = loop.call_at(next_bookmark, watcher.wake)
                await response.write(_bookmark(request, store.version))
                continue
            await watcher.wait()
    finally:
        ends.cancel()
        if reminder is not None:
            reminder.cancel()
