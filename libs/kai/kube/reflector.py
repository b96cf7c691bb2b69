"""What the API server knows about one kind, as a stream of changes that never misses the end state.

A reflector reads the whole list as a watch-list stream (the server sends what exists, then a
bookmark, then changes), or in pages where the server cannot do that, and watches from there. A
broken watch is resumed from the last resource version; only where the server no longer has that
(410), has not come to it, or tells nothing at all from there on, is everything read again, and what
vanished in between is told as removed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import structlog

from kai.kube import errors
from kai.kube.answers import decoder
from kai.kube.authorities import aiohttp
from kai.kube.backoff import Backoff
from kai.kube.client import KubeClient, selector_params
from kai.kube.forms import Form, forms
from kai.kube.resources import Resource
from kai.kube.unreadable import Identity, simplified
from kai.kube.watched import (
    BOOKMARK,
    EVENT,
    Bookmark,
    Event,
    NoInitialEvents,
    identify_json,
    identify_struct,
    identity_within,
    lines_of,
    watch_error,
)

T = TypeVar("T")

#: A watch is asked to end after between one and two times this long, so that they do not all end together.
WATCH_SECONDS = 300
#: Bookmarks come about once a minute; without any byte for so long the connection is taken for dead.
SILENCE_SECONDS = 180.0
#: A server that ignores the request for initial events says nothing; after so long it is asked for a list.
INITIAL_SILENCE_SECONDS = 15.0
LIST_PAGE_SIZE = 5000
#: A list from which could be watched for so long was good.
LASTING_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """The object exists and looks so; ``old_known`` tells whether it was told before.

    What is ``listed`` counts though something newer is known: so it is where the server's store was restored.
    """

    obj: T
    old_known: bool
    listed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """The object ``key`` (``namespace/name``) with this uid is gone.

    ``last_known`` is how it looked at the end, or None where its end was not seen.
    """

    obj_key: str
    uid: str
    last_known: T | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The object ``key`` (``namespace/name``) exists, and cannot be taken in as it looks now.

    What was told of it before is as old as its last change.
    """

    obj_key: str
    uid: str
    reason: str


#: How often to look for an optional kind that is not served.
ABSENT_PERIOD_SECONDS: Final = 60.0
#: So long an optional kind must be refused before it counts as one that we may not see: an API server that
#: has just started has not read its roles yet.
FORBIDDEN_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that exists has been told. Comes again after each relist."""


Change = Upserted[T] | Removed[T] | Unreadable | Synced
Sink = Callable[[Any], None]


class Reflector(Generic[T]):
    """Follows one kind. ``type`` is a struct with ``key`` and ``metadata``, or ``dict``.

    A kind with several versions is followed in the newest that is served, and told in the form of the newest
    that there is (:mod:`kai.kube.forms`). With ``metadata_only`` objects come without anything but their
    metadata.
    An ``optional`` kind that the server does not serve counts as empty, and is looked for again every
    minute. So does one that the server never showed us, once it has refused to for some seconds; what it did
    show us stays known while it refuses.
    """

    def __init__(
        self,
        client: KubeClient,
        res: Resource,
        type: type[T],  # noqa: A002
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        optional: bool = False,
        watch_list: bool = True,
        metadata_only: bool = False,
    ) -> None:
        self.resource = res
        self.synced = asyncio.Event()
        self.relists = 0
        #: In which version the kind is followed; None while the server has none of them.
        self.form: Form | None = None
        self._forms = forms(res)
        self._client = client
        self._identify = identify_json if type is dict else identify_struct
        self._type = type
        self._take_form(0)
        self._namespace = namespace
        self._params = selector_params(label_selector, field_selector)
        self._optional = optional
        self._watch_list = watch_list
        self._metadata_only = metadata_only
        self._known: dict[str, str] = {}
        #: So many of them are in the metrics, beside those of other reflectors of the kind.
        self._counted = 0
        #: Keys told since the list began, while it is not complete.
        self._listing: set[str] | None = None
        self._resource_version = ""
        #: The last watch did not last as long as it was asked to: the server may be another one since, or its
        #: store.
        self._cut_short = False
        #: The kind is not served: looking for it again is no relist.
        self._absent = False
        #: Since when the server has answered nothing but that we may not see the kind.
        self._forbidden_since: float | None = None
        self._backoff = Backoff()
        #: When all was read last, and the pauses after lists from which nothing could be watched for long.
        self._listed_at = float("-inf")
        self._after_list = Backoff()
        self._sink: Sink = lambda change: None

    async def run(self, sink: Sink) -> None:
        """Tell ``sink`` every change, until cancelled. The sink is plain code and must not block.

        Raises:
            Unauthorized: the credentials are not accepted any more.
        """
        self._sink = sink
        try:
            await self._run()
        finally:
            self._count(0)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except errors.Gone as error:
                if not self._resource_version:
                    await self._pause(error)
                else:
                    await self._pause_after_list()
                self._resource_version = ""
            except errors.Unauthorized:
                raise
            except errors.NotFound as error:
                if not self._try_older():
                    await self._pause(error)
            except errors.KubeError as error:
                await self._pause(error)

    def _take_form(self, number: int) -> None:
        self._number, form = number, self._forms[number]
        self._served_as = form.resource
        plain = decoder(cast(Any, self._type)).decode
        read = form.read
        if read is None:
            self._decode = plain
            return
        as_json = decoder(dict).decode

        def converted(raw: Any) -> Any:
            obj = read(as_json(raw))
            return obj if self._type is dict else msgspec.convert(obj, cast(Any, self._type))

        self._decode = converted

    def _try_older(self) -> bool:
        """Go on with the next older version; after the oldest the newest comes again, but not at once."""
        if len(self._forms) == 1:
            return False
        more = self._number + 1 < len(self._forms)
        self._take_form(self._number + 1 if more else 0)
        self._resource_version, self.form = "", None
        return more

    async def _follow(self) -> None:
        """Read everything if we must, then watch until the watch ends."""
        if self._resource_version and self._cut_short and await self._is_behind():
            await self._pause_after_list()
            self._resource_version = ""
        if self._resource_version:
            await self._watch({"resourceVersion": self._resource_version})
            return
        if self.synced.is_set() and not self._absent:
            self.relists += 1
            self._client.metrics.relists.labels(self.resource.plural).inc()
            _log.info("watch starts again from a list", resource=self.resource.plural)
        if self._watch_list:
            await self._watch_from_start()
        else:
            await self._list()

    async def _pause(self, error: errors.KubeError) -> None:
        if self._optional and self._is_absence(error):
            if not self.synced.is_set():
                _log.info("done without a resource", resource=self.resource.plural, reason=str(error))
            self._listing = set()
            self._finish_list("")
            await asyncio.sleep(ABSENT_PERIOD_SECONDS)
            return
        failures = self._backoff.failures
        delay = self._backoff.next()
        # A server that restarts is everyday life; only what lasts is worth a line, and not each time.
        if failures >= 2 or isinstance(error, errors.ApiError):
            _log.warning(
                "watch failed", resource=self.resource.plural, error=str(error), retry_seconds=round(delay, 1)
            )
        await asyncio.sleep(delay)

    async def _pause_after_list(self) -> None:
        """Lists are large; where they do not help for long the next one is not read at once."""
        if asyncio.get_running_loop().time() - self._listed_at > LASTING_SECONDS:
            self._after_list.reset()
            return
        await asyncio.sleep(self._after_list.next())

    async def _is_behind(self) -> bool:
        """Whether the server has yet to come to our version, as where its store was restored from a backup.

        It would take a watch from there, and once there go on as if nothing had been: nobody would tell what
        was taken back or revived. Asked in one attempt: where the server is away, that is told like any other
        failure of the watch.
        """
        newest = await self._client.newest_version(
            self._served_as, namespace=self._namespace, field_selector=self._params.get("fieldSelector", "")
        )
        if not (newest.isdecimal() and self._resource_version.isdecimal()):
            return False
        behind = int(newest) < int(self._resource_version)
        if behind:
            _log.warning(
                "the server's store is older than it was",
                resource=self.resource.plural,
                known=self._resource_version,
                newest=newest,
            )
        return behind

    def _is_absence(self, error: errors.KubeError) -> bool:
        """Whether there is nothing of the kind for us, and not only at the moment."""
        if not isinstance(error, errors.Forbidden):
            self._forbidden_since = None
            return isinstance(error, errors.NotFound)
        if self.synced.is_set():
            return self._absent
        now = asyncio.get_running_loop().time()
        if self._forbidden_since is None:
            self._forbidden_since = now
        return now - self._forbidden_since >= FORBIDDEN_SECONDS

    # --- reading everything --------------------------------------------------------------------
    async def _list(self) -> None:
        self._listing = set()
        version = ""
        pages = self._client.pages(
            self._served_as,
            namespace=self._namespace,
            params=self._params,
            type=msgspec.Raw,
            page_size=LIST_PAGE_SIZE,
            metadata_only=self._metadata_only,
        )
        async for page in pages:
            version = page.metadata.resource_version
            for raw in page.items or ():
                self._list_item(raw)
        if not version:
            raise errors.TransportError(f"list {self.resource.plural}: it has no version to watch from")
        self._finish_list(version)
        self._cut_short = False

    def _list_item(self, raw: msgspec.Raw) -> None:
        try:
            self._take(Event("ADDED", raw))
        except RecursionError as error:
            self._take_deep(Event("ADDED", msgspec.Raw(simplified(bytes(raw)))), error)
        except msgspec.DecodeError as error:
            raise errors.TransportError(f"list {self.resource.plural}: {error}") from error

    def _finish_list(self, version: str) -> None:
        for key in self._known.keys() - (self._listing or set()):
            self._forget(key, None)
        self._listing = None
        self._absent = not version
        self.form = self._forms[self._number] if version else None
        if self.form is not None and self.form.read is not None:
            _log.info(
                "served in an older version", resource=self._served_as.plural, version=self._served_as.version
            )
        self._resource_version = version
        self._listed_at = asyncio.get_running_loop().time()
        self._backoff.reset()
        self._count(len(self._known))
        self._sink(Synced())
        self.synced.set()

    def _count(self, known: int) -> None:
        self._client.metrics.objects.labels(self.resource.plural).inc(known - self._counted)
        self._counted = known

    # --- watching ------------------------------------------------------------------------------
    async def _watch_from_start(self) -> None:
        """Watch from the beginning of time: what comes up to the marking bookmark is the whole list."""
        self._listing = set()
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._watch(params)
        except (errors.Invalid, errors.BadRequest, NoInitialEvents):
            _log.info("server cannot stream lists", resource=self.resource.plural)
            self._watch_list = False
        else:
            if self._listing is not None:
                raise errors.TransportError(f"watch {self.resource.plural}: ended amid the list")

    async def _watch(self, params: dict[str, str]) -> None:
        clock = asyncio.get_running_loop().time
        began, seconds = clock(), random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)  # noqa: S311
        query = {
            **self._params,
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        self._cut_short = True
        events = self._client.metrics.watch_events.labels(self.resource.plural)
        told = 0
        async with self._client.stream(
            self._served_as,
            namespace=self._namespace,
            params=query,
            silence=SILENCE_SECONDS,
            metadata_only=self._metadata_only,
        ) as stream:
            try:
                async for lines in lines_of(stream, self._patience):
                    for line in lines:
                        self._tell(line)
                    told += len(lines)
                    events.inc(len(lines))
                    self._count(len(self._known))
                    self._backoff.reset()
            except aiohttp.ServerTimeoutError:
                if not told:
                    # Not even a bookmark: as where the server's store was restored, and our version is yet to
                    # come. What changed in it before nobody would tell.
                    self._resource_version = ""
                raise
        self._cut_short = clock() - began < seconds
        if not told:
            # Keeps us from asking in a loop where a server or proxy ends every watch at once.
            await asyncio.sleep(self._backoff.next())

    def _patience(self) -> float | None:
        return INITIAL_SILENCE_SECONDS if self._listing is not None else None

    def _tell(self, line: bytes) -> None:
        try:
            try:
                version = self._take(EVENT.decode(line))
            except RecursionError as error:
                version = self._take_deep(EVENT.decode(simplified(line)), error)
        except msgspec.DecodeError as error:
            # Skipping it would leave us wrong for good; reading it again may succeed, and is loud.
            raise errors.TransportError(f"watch {self.resource.plural}: {error}: {line[:200]!r}") from error
        if self._listing is None:
            self._resource_version = version

    def _take_deep(self, event: Event, error: RecursionError) -> str:
        """Take in what is nested too deep to be walked; who keeps all of an object cannot have it so."""
        if self._type is not dict or event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return self._take(event)
        who = identity_within(event.object)
        if event.type != "DELETED":
            return self._tell_unreadable(who, error)
        self._forget(who.key, None)
        return who.resource_version

    def _take(self, event: Event) -> str:
        match event.type:
            case "ADDED" | "MODIFIED":
                try:
                    obj = self._decode(event.object)
                except msgspec.DecodeError as error:
                    return self._tell_unreadable(identity_within(event.object), error)
                return self._upsert(obj)
            case "DELETED":
                try:
                    obj = self._decode(event.object)
                except msgspec.DecodeError:
                    obj, gone = None, identity_within(event.object)
                    key, version = gone.key, gone.resource_version
                else:
                    key, _, version = self._identify(obj)
                self._forget(key, obj)
                return version
            case "BOOKMARK":
                return self._bookmark(BOOKMARK.decode(event.object))
            case _:
                raise watch_error(event.object, self.resource)

    def _tell_unreadable(self, who: Identity, error: Exception) -> str:
        """One object that nobody can read must not keep all others of its kind from us."""
        reason = f"{type(error).__name__}: {error}"
        _log.warning("object cannot be read", resource=self.resource.plural, object=who.key, reason=reason)
        self._know(who.key, who.uid)
        self._sink(Unreadable(who.key, who.uid, reason))
        return who.resource_version

    def _bookmark(self, bookmark: Bookmark) -> str:
        version = bookmark.metadata.resource_version
        if (bookmark.metadata.annotations or {}).get(INITIAL_EVENTS_END) and self._listing is not None:
            self._finish_list(version)
        return version

    def _upsert(self, obj: Any) -> str:
        key, uid, version = self._identify(obj)
        known = self._know(key, uid)
        try:
            self._sink(Upserted(obj, known, listed=self._listing is not None))
        except Exception as error:  # noqa: BLE001 (whatever one object does to a sink is that object's matter)
            _log.exception("object cannot be taken in", resource=self.resource.plural, object=key)
            self._sink(Unreadable(key, uid, f"{type(error).__name__}: {error}"))
        return version

    def _know(self, key: str, uid: str) -> bool:
        """Remember an object; whether it was known before."""
        known = self._known.get(key)
        if known is not None and known != uid:
            # Deleted and created again while we did not look: never the same object.
            self._forget(key, None)
            known = None
        self._known[key] = uid
        if self._listing is not None:
            self._listing.add(key)
        return known is not None

    def _forget(self, key: str, last_known: Any) -> None:
        uid = self._known.pop(key, None)
        if self._listing is not None:
            self._listing.discard(key)
        if uid is None:
            return
        try:
            self._sink(Removed(key, uid, last_known))
        except Exception:  # noqa: BLE001 (as where it is told that the object is there)
            _log.exception("end of an object cannot be taken in", resource=self.resource.plural, object=key)
