"""The file itself: a zip with one ``snapshot.json``, as the original's ``/get-snapshot`` gives it."""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.failures import blame_one_of
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.times import rfc3339, seconds

FILE: Final = "snapshot.json"
#: 20,000 pods that are all alike pack to a thirtieth. What is small is read whatever it packs to.
PACKED_AT_MOST_TIMES: Final = 200
SMALL_BYTES: Final = 64 << 20
UNPACKED_AT_MOST_BYTES: Final = 4 << 30
_LONG: Final = 40
_KUBERNETES: Final[Mapping[str, str]] = {kind.value: kind.kubernetes for kind in Kind}
_REMEDY: Final = "take it anew with `kai snapshot`, or from /get-snapshot of the scheduler that leads"
_TIMES: Final = "creationTimestamp|lastTransitionTime|lastHeartbeatTime|startTime|startedAt"
_ANNOTATED: Final = (names.STALE_TIMESTAMP, names.LAST_START_TIMESTAMP, names.LAST_EVICTION_TIMESTAMP)
#: What reading a zip raises that is none, or is damaged; by how it is packed.
_DAMAGED: Final = (
    *(KeyError, EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile),
    *(zlib.error, lzma.LZMAError),
)
#: Only these are in the past for certain: a deletion timestamp is when the grace period ends.
_PAST: Final = re.compile(
    rf'"(?:{"|".join((_TIMES, *map(re.escape, _ANNOTATED)))})"\s*:\s*"([^"]{{1,40}})"'.encode()
)


class ArchiveError(ValueError):
    """The file is not a snapshot file; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What a snapshot file says, as it stands there."""

    config: Mapping[str, Any] | None
    params: Mapping[str, Any] | None
    raw_objects: Mapping[str, Sequence[Any] | None]
    discovery: Mapping[str, Any] | None = None
    #: Unix seconds; 0 if nothing in the file has a time.
    taken_at: float = 0.0


def read(data: bytes) -> Archive:
    """Read a snapshot file: the zip, or the JSON in it.

    A file of the original does not say when it was taken; then it is the newest time that an object has.

    Raises:
        ArchiveError: it is neither.
    """
    text = _unpacked(data)
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = f"{FILE} is not JSON" if text is not data else f"neither a zip with {FILE} nor its JSON"
        raise ArchiveError(f"{what} ({error}); {_REMEDY}") from error
    raw = _object(found, "rawObjects") if isinstance(found, dict) else None
    if raw is None:
        raise ArchiveError(f"{FILE} has no rawObjects, so it is no snapshot of a scheduler; {_REMEDY}")
    for kind, objects in raw.items():
        if objects is not None and not isinstance(objects, list):
            raise ArchiveError(f"rawObjects.{kind} is {_shown(objects)}; it must be a list")
    return Archive(
        config=_object(found, "config"),
        params=_object(found, "schedulerParams"),
        raw_objects=raw,
        discovery=_object(found, "discovery"),
        taken_at=_taken_at(found) or _newest_time(text),
    )


def write(archive: Archive) -> bytes:
    """The zip; what :func:`read` and the tools of the original read.

    Raises:
        FailedOver: an object cannot be encoded.
    """
    document: dict[str, Any] = {
        "config": archive.config,
        "schedulerParams": archive.params,
        "rawObjects": archive.raw_objects,
        "discovery": archive.discovery or {"serverVersion": None, "resources": None},
    }
    if archive.taken_at:
        document["takenAt"] = rfc3339(archive.taken_at)
    try:
        text = msgspec.json.encode(document)
    except Exception:
        listed = archive.raw_objects.items()
        blame_one_of(
            [(kind, each) for kind, objects in listed for each in objects or ()],
            msgspec.json.encode,
            about=lambda item: about(*item),
        )
        raise
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(FILE, text)
    return buffer.getvalue()


def about(listed: str, obj: Any) -> str:
    """What people call an object, by the name of the list that it is in."""
    return f"{_KUBERNETES.get(listed, listed)} {object_key(obj)}"


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"PK"):
        return data
    most = max(SMALL_BYTES, min(PACKED_AT_MOST_TIMES * len(data), UNPACKED_AT_MOST_BYTES))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed, packed.open(FILE) as file:
            text = file.read(most + 1)
    except _DAMAGED as error:
        raise ArchiveError(f"no {FILE} can be read from the zip ({error}); {_REMEDY}") from error
    if len(text) > most:
        raise ArchiveError(
            f"{FILE} in the zip has more than {most >> 20} MiB, which no snapshot of this size has"
        )
    return text


def _object(document: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = document.get(key)
    if value is not None and not isinstance(value, dict):
        raise ArchiveError(f"{key} is {_shown(value)}; it must be an object")
    return value


def _taken_at(document: Mapping[str, Any]) -> float:
    value = document.get("takenAt")
    if value is None:
        return 0.0
    if not isinstance(value, str) or not (found := seconds(value)):
        raise ArchiveError(f"takenAt is {_shown(value)}; it must be a time such as 2026-01-31T12:00:00Z")
    return found


def _shown(value: Any) -> str:
    """JSON, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _newest_time(text: bytes) -> float:
    return max((seconds(each.decode("ascii", "replace")) for each in set(_PAST.findall(text))), default=0.0)
