"""What happens during a soak: deeds, and when they are due. Plain data, so that plans can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """Apply manifests. With ``kubectl`` by the real one, as a user does it."""

    manifests: tuple[Json, ...]
    kubectl: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Merge a patch into an object."""

    manifest: Json
    patch: Json
    kubectl: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete objects, named by as much of their manifests as names them, and what they own."""

    manifests: tuple[Json, ...]
    kubectl: bool = False
    #: Not asked to end, but gone at once.
    force: bool = False


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict so many of the pods that run in a namespace and whose names begin so, through the API."""

    namespace: str
    prefix: str
    count: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon a node and delete what runs there."""

    node: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to a process of the cluster; after ``SIGSTOP`` it goes on when the time has come."""

    process: str
    signal: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """Have the API server answer the services with this status for a while, or break all watches (410)."""

    status: int
    seconds: float


Deed = Put | Change | Remove | Evict | Drain | Signal | Refuse


@dataclass(frozen=True, slots=True)
class Action:
    """A deed that is due so many seconds after the beginning. ``what`` is one line for people."""

    at: float
    what: str
    deed: Deed
    #: Objects that it is about: ``Kind namespace/name``.
    subjects: tuple[str, ...] = ()
    #: What is put cannot be scheduled, or only in part: somebody has to tell its owner.
    malformed: bool = field(default=False)


def subject(manifest: Json) -> str:
    """``Kind namespace/name`` of a manifest, without namespace for what has none."""
    meta = manifest["metadata"]
    namespace = meta.get("namespace")
    return (
        f"{manifest['kind']} {namespace}/{meta['name']}"
        if namespace
        else f"{manifest['kind']} {meta['name']}"
    )
