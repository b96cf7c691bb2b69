"""What holds a past and is not asked for any more: a Prometheus, and a volume with a retention.

It is kept for as long as it would have kept what it holds. Who switches it on again meanwhile has lost
nothing but what was not recorded; after that there is nothing left that could be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kai.kube.resources import PVCS, SERVICE_ACCOUNTS, SERVICES
from kai.model import duration
from kai.model.names import RETENTION
from kai_operator.bodies import RETIRED
from kai_operator.kinds import PROMETHEUSES, Manifest, Ref, ref_of

#: Of one that does not say how long it keeps what it holds.
_RETENTION: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Objects that stay for now, why in words, and when that is over for the first of them."""

    objects: Sequence[Manifest] = ()
    notes: Sequence[str] = ()
    due: datetime | None = None


def kept(owned: Iterable[Manifest], wanted: Iterable[Manifest], *, now: datetime) -> Kept:
    """What of the objects of an owner stays though nobody wants it: each Prometheus that was switched off
    a short time ago, by which Service it is reached, and its account; and each volume with a retention.
    """
    refs, there = {ref_of(each) for each in wanted}, {ref_of(each): each for each in owned}
    objects, notes, ends = dict[Ref, Manifest](), [], []
    for ref, live in there.items():
        if ref in refs or not _holds_a_past(live) or live["metadata"].get("deletionTimestamp"):
            continue
        # What was written down by a clock that was ahead, or by hand, would keep it for as long.
        since = min(_since(live) or now, now)
        end = since + _retention(live)
        if end <= now:
            continue
        objects[ref] = _as_it_is(live, **{RETIRED: _text(since)})
        if ref.kind == PROMETHEUSES.kind:
            objects |= {
                near: _as_it_is(each)
                for near, each in there.items()
                if near not in refs and _belongs(each, live)
            }
        holds = "what it scraped" if ref.kind == PROMETHEUSES.kind else "what is on it"
        notes.append(f"{ref} is switched off, and kept with {holds} until {_text(end)}")
        ends.append(end)
    return Kept(objects=list(objects.values()), notes=notes, due=min(ends, default=None))


def _holds_a_past(live: Manifest) -> bool:
    annotations = live["metadata"].get("annotations") or {}
    return live["kind"] == PROMETHEUSES.kind or (live["kind"] == PVCS.kind and RETENTION in annotations)


def _belongs(manifest: Manifest, prometheus: Manifest) -> bool:
    """Whether this is the account of its pods, or leads to them."""
    meta = prometheus["metadata"]
    if manifest["metadata"].get("namespace") != meta["namespace"]:
        return False
    if manifest["kind"] == SERVICE_ACCOUNTS.kind:
        account = (prometheus.get("spec") or {}).get("serviceAccountName")
        return bool(manifest["metadata"]["name"] == account)
    selector = (manifest.get("spec") or {}).get("selector") or {}
    return bool(manifest["kind"] == SERVICES.kind and selector.get("prometheus") == meta["name"])


def _as_it_is(live: Manifest, **annotations: str) -> Manifest:
    """What would have to be wanted for nothing but these annotations to change."""
    meta = live["metadata"]
    metadata: dict[str, Any] = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": meta.get("labels") or {},
    }
    if found := (meta.get("annotations") or {}) | annotations:
        metadata["annotations"] = found
    return {key: each for key, each in live.items() if key != "status"} | {"metadata": metadata}


def _since(live: Manifest) -> datetime | None:
    """When it was switched off; None if that was not written down, or cannot be read."""
    text = (live["metadata"].get("annotations") or {}).get(RETIRED, "")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _retention(live: Manifest) -> timedelta:
    is_volume = live["kind"] == PVCS.kind
    try:
        said = live["metadata"]["annotations"][RETENTION] if is_volume else live["spec"]["retention"]
        return timedelta(seconds=duration.parse(str(said), days=True))
    except (KeyError, TypeError, ValueError, OverflowError):
        return _RETENTION


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
