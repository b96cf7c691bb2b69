"""Events: their two forms, core/v1, in which they are stored, and events.k8s.io/v1; and their end."""

import asyncio
from typing import Final

from kai_local.apiserver.clock import Clock, seconds_of
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.store.storage import Store

GROUP: Final = "events.k8s.io"
KEY: Final = ("", "events")
#: Seconds that an event is kept after it was told last, as Kubernetes has it unless told otherwise.
LIFETIME: Final = 3600.0
_LOOK_EVERY: Final = 60.0
_TO_CORE: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE: Final = {core: new for new, core in _TO_CORE.items()}
#: Fields that a server writes as null where they are not set; ``kubectl --sort-by`` needs one to be there.
_TIMES: Final = ("firstTimestamp", "lastTimestamp", "eventTime")


def stored(event: Obj) -> Obj:
    """A core/v1 Event with all times that it can have."""
    return event | {time: None for time in _TIMES if time not in event}


def to_core(event: Obj) -> Obj:
    """An events.k8s.io/v1 Event as the core/v1 Event that is stored."""
    core = {_TO_CORE.get(key, key): value for key, value in event.items()}
    core["apiVersion"] = "v1"
    return stored(core)


def from_core(event: Obj) -> Obj:
    """A stored core/v1 Event as an events.k8s.io/v1 Event."""
    new = {_FROM_CORE.get(key, key): value for key, value in event.items()}
    new["apiVersion"] = "events.k8s.io/v1"
    return new


def warning(about: Obj, reason: str, message: str, *, component: str, stamp: str) -> Obj:
    """A new core/v1 Event about a stored object, by a part of the server; one in no namespace is told of in
    ``default``.
    """
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "default")
    identity = {
        key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion") if key in metadata
    }
    return {
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
        "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **identity},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


async def expire(store: Store, clock: Clock) -> None:
    """Forget old events, until cancelled."""
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        forget_before(store, clock.now() - LIFETIME)


def forget_before(store: Store, time: float) -> None:
    """Remove the events that were told last before ``time`` (Unix seconds)."""
    collection = store.collection(KEY)
    for record in list(collection.records()):
        if _told(record.obj) < time:
            collection.remove(record)


def _told(event: Obj) -> float:
    series = event.get("series") or {}
    stamps = (
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(seconds_of(stamp) for stamp in stamps if stamp)
