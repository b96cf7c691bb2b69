"""The two forms of an Event: core/v1, in which it is stored, and events.k8s.io/v1."""

from typing import Final

from kai.local.apiserver.errors import Obj

GROUP: Final = "events.k8s.io"
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
