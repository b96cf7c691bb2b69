"""Events (events.k8s.io/v1), written in the background and never in anyone's way.

The same event about the same object is written once and then counted: its series is brought up to
date at most once a minute. They are behind everything else that the process writes
(:mod:`kai.kube.dispatcher`). Namespaces take turns, so that one with thousands of events does not keep back
those of others. Where the API server cannot keep up at all, events are dropped and counted.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, KubeError, NotFound
from kai.kube.fair_queue import FairQueue
from kai.kube.resources import EVENTS, Resource
from kai.model.objects import ApiObject, ApiStruct
from kai.model.words import shortened

EventType = Literal["Normal", "Warning"]

#: The API's limit on a note is 1024 bytes.
NOTE_BYTES = 1024
SERIES_SECONDS = 60.0
#: An event not repeated for so long starts anew, as a new object.
FORGET_SECONDS = 360.0
#: Events of which repetitions are recognised; the oldest are forgotten first.
REMEMBERED = 8192
#: What waits to be written: in all, and of one namespace.
WAITING, WAITING_EACH = 16_384, 2048

#: So much of an object's name begins the names of its events, which may have 253 characters.
_MOST_OF_NAME: Final = 230
#: What becomes of events.
_RESULTS: Final = ("written", "aggregated", "dropped", "gone", "failed")

_log = structlog.get_logger(__name__)


class ObjectReference(ApiStruct):
    """What an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def reference(res: Resource, obj: ApiObject) -> ObjectReference:
    """A reference to an object that was read from the API server."""
    meta = obj.metadata
    return ObjectReference(
        api_version=res.api_version,
        kind=res.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def host_name() -> str:
    """What this process calls the machine that it is on; in a pod, and where one is played, the pod."""
    return os.environ.get("HOSTNAME") or socket.gethostname()


_Key = tuple[str, str, str, str, str, str]


@dataclass(slots=True, eq=False)
class _Record:
    """An event that was accepted for writing; its body is made then, for thousands may wait."""

    key: _Key
    regarding: ObjectReference
    action: str
    annotations: dict[str, str] | None
    event_time: str
    last_seen: float
    #: Of the object in the API; empty until it has been written.
    name: str = ""
    count: int = 1
    written_count: int = 0
    last_observed: str = ""
    queued: bool = field(default=True)
    occurrence: str = ""
    #: Whether the event of its name that may be there is this one.
    maybe_told: bool = False


class EventRecorder:
    """Takes events from one component, ``controller``. Give :meth:`run` to a task group."""

    def __init__(
        self,
        client: KubeClient,
        *,
        controller: str,
        instance: str = "",
        capacity: int = WAITING,
        each: int = WAITING_EACH,
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = (instance or f"{controller}-{host_name()}")[:128]
        self._clock = clock or asyncio.get_running_loop().time
        self._queue: FairQueue[_Record] = FairQueue(capacity=capacity, each=each)
        self._records: OrderedDict[_Key, _Record] = OrderedDict()
        self._counter = Counter(
            "kai_events",
            "Events by what became of them",
            ("result",),
            registry=registry or CollectorRegistry(),
        )
        for result in _RESULTS:  # a rate of what begins with its first case does not know that one
            self._counter.labels(result)
        self.dropped = 0

    def emit(
        self,
        regarding: ObjectReference,
        type: EventType,  # noqa: A002 (the API's word)
        reason: str,
        message: str,
        annotations: dict[str, str] | None = None,
        *,
        action: str = "",
        occurrence: str = "",
        maybe_told: bool = False,
    ) -> None:
        """Have an event written; returns at once. ``action`` defaults to the reason.

        ``occurrence`` tells what happened from all else that did: whoever tells of it once more, as the next
        process does that leads, means the event that is there. So does who is not sure whether a predecessor
        came to tell something (``maybe_told``).
        """
        now = self._clock()
        message = shortened(message, most=NOTE_BYTES)
        key = (regarding.namespace, regarding.name, regarding.uid, type, reason, message)
        record = self._records.get(key)
        if record is not None and now - record.last_seen < FORGET_SECONDS:
            self._repeat(key, record, now)
            return
        record = _Record(
            key,
            regarding,
            action or reason,
            annotations,
            _micro_now(),
            last_seen=now,
            occurrence=occurrence,
            maybe_told=maybe_told,
        )
        if self._enqueue(record):
            self._records[key] = record
            self._records.move_to_end(key)
            if len(self._records) > REMEMBERED:
                self._records.popitem(last=False)

    async def run(self) -> None:
        """Write until cancelled, one at a time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            group.create_task(self._refresh_series())

    async def drain(self) -> None:
        """Wait until all that was emitted has been written or given up."""
        await self._queue.join()

    def _repeat(self, key: _Key, record: _Record, now: float) -> None:
        record.count += 1
        record.last_seen = now
        record.last_observed = _micro_now()
        self._records.move_to_end(key)
        self._counter.labels("aggregated").inc()

    def _enqueue(self, record: _Record) -> bool:
        namespace = record.key[0]
        if not self._queue.put(namespace, record):
            if not self.dropped:
                _log.warning(
                    "events dropped; the api server does not keep up",
                    controller=self._controller,
                    namespace=namespace,
                )
            self.dropped += 1
            self._counter.labels("dropped").inc()
            return False
        record.queued = True
        return True

    async def _work(self) -> None:
        while True:
            record = await self._queue.get()
            record.queued = False
            try:
                await self._write(record)
            except NotFound:
                self._forget(record)
                self._counter.labels("gone").inc()
            except KubeError as error:
                if not record.name:
                    self._forget(record)
                self._counter.labels("failed").inc()
                _log.info("event not written", regarding=record.key[1], error=str(error))
            else:
                self._counter.labels("written").inc()
            finally:
                self._queue.done()

    async def _write(self, record: _Record) -> None:
        namespace = _home(record.key[0])
        count = record.count
        if not record.name:
            # A repetition that came before the first was written is left to the series.
            body = self._body(record)
            try:
                await self._client.create(EVENTS, body, namespace=namespace)
            except AlreadyExists:
                if not (record.occurrence or record.maybe_told):
                    # The same befell the object before, within the hour that events are kept.
                    body = self._body(record, again=True)
                    await self._client.create(EVENTS, body, namespace=namespace)
            record.name, record.written_count = body["metadata"]["name"], 1
            return
        series = {"count": count, "lastObservedTime": record.last_observed}
        await self._client.patch(EVENTS, record.name, {"series": series}, namespace=namespace)
        record.written_count = count

    async def _refresh_series(self) -> None:
        while True:
            await asyncio.sleep(SERIES_SECONDS)
            forgotten = self._clock() - FORGET_SECONDS
            for record in list(self._records.values()):
                if record.name and not record.queued and record.count > record.written_count:
                    self._enqueue(record)
                elif record.last_seen <= forgotten and not record.queued:
                    self._forget(record)

    def _forget(self, record: _Record) -> None:
        """The next of its kind is written as a new one."""
        if self._records.get(record.key) is record:
            del self._records[record.key]

    def _body(self, record: _Record, *, again: bool = False) -> dict[str, Any]:
        namespace, name, _, kind, reason, message = record.key
        suffix = token_hex(8) if again else _suffix(record)
        metadata: dict[str, Any] = {
            "name": f"{name[:_MOST_OF_NAME].rstrip('-.')}.{suffix}",
            "namespace": _home(namespace),
        }
        if record.annotations:
            metadata["annotations"] = record.annotations
        return {
            "metadata": metadata,
            "eventTime": record.event_time,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": record.action,
            "reason": reason,
            "regarding": record.regarding,
            "note": message,
            "type": kind,
        }


def _suffix(record: _Record) -> str:
    """What tells an event from others about its object: what it says, and when it happened if that counts."""
    return sha256("\0".join((*record.key, record.occurrence)).encode()).hexdigest()[:16]


def _home(namespace: str) -> str:
    """Events about cluster-scoped objects live in the default namespace."""
    return namespace or "default"


def _micro_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
