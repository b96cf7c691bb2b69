"""Reading: get, list in pages, and the start of watches."""

import asyncio
import itertools
import random
from collections import OrderedDict
from typing import Final

import msgspec
from aiohttp import web

from kai_local.apiserver.calls import list_options
from kai_local.apiserver.calls.bodies import answer
from kai_local.apiserver.calls.query import flag, number
from kai_local.apiserver.calls.requests import Target
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import ApiFailure, Obj, expired
from kai_local.apiserver.kinds.selectors import Selection
from kai_local.apiserver.reading import tables, watch
from kai_local.apiserver.store.storage import Record, Store

PAGES_KEPT: Final = 64
#: How long the rest of a list that was begun may be asked for: what it shows is held in memory meanwhile.
PAGES_SECONDS: Final = 300.0
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a "
    "new list without "
    "the continue parameter."
)


class Reader:
    """Answers get, list and watch from the store."""

    def __init__(self, store: Store, hubs: watch.Hubs, clock: Clock) -> None:
        self._store = store
        self._hubs = hubs
        self._clock = clock
        self._pages: OrderedDict[str, tuple[list[Record], int]] = OrderedDict()
        self._page_ids = itertools.count(1)

    def get(self, http: web.BaseRequest, target: Target, record: Record) -> web.Response:
        """One object, or the table of it."""
        view = tables.view_of(http, target, self._clock)
        if view is not None:
            return answer(view.document([record], {"resourceVersion": str(record.version)}))
        return answer(record.form(tables.conversion(http, target)))

    async def list_or_watch(self, http: web.BaseRequest, target: Target) -> web.StreamResponse:
        """A page of a list, or a stream."""
        selection = Selection(
            target.resource,
            target.namespace,
            http.query.get("labelSelector", ""),
            http.query.get("fieldSelector", ""),
            target.name,
        )
        watching = flag(http.query, "watch")
        list_options.check(http.query, watch=watching)
        self._check_version(http.query.get("resourceVersion", ""))
        if watching:
            return await self._watch(http, target, selection)
        return self._list(http, target, selection)

    def _check_version(self, text: str) -> None:
        if text and int(text) > self._store.version:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Too large resource version: {text}, current: {self._store.version}"
            raise ApiFailure(504, "Timeout", message, details={"causes": [cause]}, retry_after=1)

    def _list(self, http: web.BaseRequest, target: Target, selection: Selection) -> web.Response:
        records, version, start, page_id = self._source(http, target, selection)
        limit = number(http.query, "limit") or 0
        page = records[start : start + limit] if limit > 0 else records[start:]
        metadata: Obj = {"resourceVersion": str(version)}
        end = start + len(page)
        if end < len(records):
            page_id = page_id or self._keep(records, version)
            metadata["continue"] = list_options.token(page_id, end)
            if not (selection.labels or selection.fields):
                metadata["remainingItemCount"] = len(records) - end
        view = tables.view_of(http, target, self._clock)
        if view is not None:
            return answer(view.document(page, metadata))
        convert = tables.conversion(http, target)
        kind, api_version, typed = target.resource.kind + "List", target.api_version, target.resource.custom
        if convert is tables.partial_metadata:
            kind, api_version, typed = "PartialObjectMetadataList", "meta.k8s.io/v1", True
        items = b",".join([record.item(convert, typed=typed) for record in page])
        head = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return answer(b'%s,"items":[%s]}' % (head[:-1], items))

    def _source(
        self, http: web.BaseRequest, target: Target, selection: Selection
    ) -> tuple[list[Record], int, int, str]:
        """The matching objects, the version that they show, where to start in them, and the id of kept
        pages.
        """
        token = http.query.get("continue", "")
        if token:
            page_id, start = list_options.read_token(token)
            if page_id not in self._pages:
                raise expired(_TOO_OLD)
            records, version = self._pages[page_id]
            return records, version, start, page_id
        version = self._store.version
        collection = self._store.collection(target.resource.storage_key)
        if http.query.get("resourceVersionMatch") == "Exact":
            asked = int(http.query.get("resourceVersion", "0") or 0)
            latest = collection.changes[-1].version if collection.changes else collection.floor
            if asked < latest:
                raise expired(f"The resourceVersion for the provided list is too old: {asked}")
        records = collection.records(selection.namespace)
        if not selection.trivial:
            records = [record for record in records if selection.matches(record)]
        return records, version, 0, ""

    def _keep(self, records: list[Record], version: int) -> str:
        page_id = f"{next(self._page_ids)}-{random.randrange(1 << 32):x}"  # noqa: S311
        self._pages[page_id] = (records, version)
        asyncio.get_running_loop().call_later(PAGES_SECONDS, self._pages.pop, page_id, None)
        while len(self._pages) > PAGES_KEPT:
            self._pages.popitem(last=False)
        return page_id

    def forget_pages(self) -> None:
        """Make every continue token too old."""
        self._pages.clear()

    async def _watch(self, http: web.BaseRequest, target: Target, selection: Selection) -> web.StreamResponse:
        resource = target.resource
        view = tables.view_of(http, target, self._clock)
        convert = tables.conversion(http, target)
        timeout = number(http.query, "timeoutSeconds") or random.uniform(1800, 3600)  # noqa: S311
        kind, api_version = (
            ("PartialObjectMetadata", "meta.k8s.io/v1")
            if convert is tables.partial_metadata
            else (resource.kind, target.api_version)
        )
        request = watch.WatchRequest(
            since=http.query.get("resourceVersion", ""),
            timeout=timeout,
            bookmarks=flag(http.query, "allowWatchBookmarks"),
            send_initial=flag(http.query, "sendInitialEvents"),
            api_version=api_version,
            kind=kind,
        )
        return await watch.serve(
            http,
            resource=resource,
            collection=self._store.collection(resource.storage_key),
            hub=self._hubs.of(resource.storage_key),
            store=self._store,
            selection=selection,
            request=request,
            renderer=view if view is not None else watch.ObjectRenderer(convert),
        )
