"""The sessions of this leader: kept in a ring for those who come back, as a whole for those who are new."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kai.model.decisions import CycleResult, Nomination, Outcome, PodGroupOutcome, QueueShare, ResourceVector
from kai.model.failures import FailedOver
from kai.model.faults import Fault
from kai.wire.session_codec import SessionUpdate, encode_update
from kai.wire.v1.session_pb2 import SessionEvictions, WatchSessionsResponse

#: For who comes back: so many sessions, of so many bytes, and none that is older; others are told everything.
KEPT: Final = 512
KEPT_BYTES: Final = 64 << 20
KEPT_SECONDS: Final = 60.0
#: Parts of an update, and the object that an item of each is about.
_PARTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "shares": lambda item: f"Queue {item.queue}",
    "outcomes": lambda item: f"PodGroup {item.pod_group}",
    "forgotten": lambda item: f"PodGroup {item}",
    "evictions": lambda item: f"Pod {item.pod.namespace}/{item.pod.name}",
    "nominations": lambda item: f"Pod {item.pod.namespace}/{item.pod.name}",
    "faults": lambda item: f"{item.kind} {item.key}",
}

_EMPTY: Final = SessionUpdate(version=0, epoch=0, opened_at=0.0)


class SessionLog:
    """Turns cycles into updates, and gives every watcher what it has not seen.

    ``failed`` is told of what cannot be said of a session, the first of its objects that is at fault.
    """

    def __init__(
        self, *, epoch: int, shard: str, node_pool: str, failed: Callable[[Exception], None]
    ) -> None:
        self.epoch = epoch
        self.version = 0
        self._shard = shard
        self._node_pool = node_pool
        self._failed = failed
        self._shares: tuple[QueueShare, ...] = ()
        self._capacity: ResourceVector | None = None
        self._outcomes: dict[str, PodGroupOutcome] = {}
        self._faults: dict[tuple[str, str], Fault] = {}
        self._nominations: frozenset[Nomination] = frozenset()
        self._ring: deque[WatchSessionsResponse] = deque()
        #: Bytes of each of these.
        self._sizes: deque[int] = deque()
        self._opened_at = 0.0
        self._news = asyncio.Event()
        self._closed = False

    @property
    def shares(self) -> tuple[QueueShare, ...]:
        """Those of the newest session."""
        return self._shares

    def record(self, result: CycleResult, *, opened_at: float) -> WatchSessionsResponse | None:
        """The update of a cycle; None if it changed nothing (the very first always counts)."""
        faults = {(each.kind, each.key): each for each in result.faults}
        new_faults = tuple(each for key, each in faults.items() if self._faults.get(key) != each)
        cured = tuple(key for key in self._faults if key not in faults)
        self._faults = faults
        gone = tuple(key for key in result.forgotten if self._outcomes.pop(key, None) is not None)
        outcomes = tuple(item for item in result.outcomes if self._outcomes.get(item.pod_group) != item)
        self._outcomes.update({item.pod_group: item for item in outcomes})
        shares = result.shares if result.shares != self._shares else ()
        # No shares are shares as they were: that there are none any more is told by a full update.
        full = bool(self._shares) and not result.shares
        self._shares = result.shares
        capacity = result.capacity if result.capacity != self._capacity else None
        self._capacity = result.capacity
        nominations = tuple(item for item in result.nominations if item not in self._nominations)
        self._nominations = frozenset(result.nominations)
        events = result.binds or result.evictions or nominations
        changed = gone or outcomes or shares or full or capacity or events or new_faults or cured
        if self.version and not changed:
            return None
        self.version += 1
        self._opened_at = opened_at
        update = SessionUpdate(
            version=self.version,
            epoch=self.epoch,
            opened_at=opened_at,
            full=full,
            shard=self._shard,
            node_pool=self._node_pool,
            shares=shares,
            outcomes=tuple(self._outcomes.values()) if full else outcomes,
            forgotten=gone,
            evictions=result.evictions,
            nominations=nominations,
            binds=len(result.binds),
            faults=tuple(faults.values()) if full else new_faults,
            cured=cured,
            capacity=self._capacity if full else capacity,
        )
        try:
            message = self._encode(update)
        except Exception:
            self._keep_last(0)  # who watches has to be told everything now
            self._announce()
            raise
        self._ring.append(message)
        self._sizes.append(message.ByteSize())
        while len(self._ring) > KEPT or sum(self._sizes) > KEPT_BYTES:
            self._keep_last(len(self._ring) - 1)
        self.forget(now=opened_at)
        self._announce()
        return message

    def forget(self, *, now: float) -> None:
        """Keep no session that is too old; ``now`` is Unix seconds. A cluster at rest opens no new ones."""
        while self._ring and self._ring[0].opened_at < now - KEPT_SECONDS:
            self._keep_last(len(self._ring) - 1)

    def _keep_last(self, count: int) -> None:
        while len(self._ring) > count:
            self._ring.popleft()
            self._sizes.popleft()

    def everything(self, *, with_evictions: bool = False) -> WatchSessionsResponse:
        """The full update of the newest version. Groups of which nothing is pending need no mention."""
        message = encode_update(
            SessionUpdate(
                version=self.version,
                epoch=self.epoch,
                opened_at=self._opened_at,
                full=True,
                shard=self._shard,
                node_pool=self._node_pool,
                shares=self._shares,
                outcomes=tuple(self._outcomes.values()),
                faults=tuple(self._faults.values()),
                capacity=self._capacity,
            )
        )
        if with_evictions:
            kept = [
                SessionEvictions(version=each.version, evictions=each.evictions)
                for each in self._ring
                if each.evictions
            ]
            message.MergeFrom(WatchSessionsResponse(kept=kept))
        return message

    def _encode(self, update: SessionUpdate) -> WatchSessionsResponse:
        """The message; what cannot be said is left out, now and later, and costs nobody the rest."""
        try:
            return encode_update(update)
        except Exception as error:  # noqa: BLE001 (any part of what users wrote may be at fault)
            failures: list[FailedOver] = []
            sound: dict[str, Any] = {name: _sayable(update, name, failures) for name in _PARTS}
            self._failed(failures[0] if failures else error)
        told = {outcome.pod_group for outcome in sound["outcomes"]}
        for outcome in update.outcomes:
            if outcome.pod_group not in told:
                self._outcomes.pop(outcome.pod_group, None)
        self._shares = _sayable(replace(update, shares=self._shares), "shares", [])
        return encode_update(replace(update, **sound))

    async def watch(
        self, *, after_version: int, epoch: int, from_first: bool = False, with_evictions: bool = False
    ) -> AsyncIterator[WatchSessionsResponse]:
        """All updates after that one; a full one first if they are not kept. Ends with our term.

        ``from_first``: instead of a full one, all from the first of our term on, if that is kept.
        ``with_evictions``: a full one has those of the sessions that are kept.
        """
        seen = after_version if epoch == self.epoch and after_version <= self.version else -1
        while not self._closed:
            news = self._news
            if self.version > max(seen, 0):
                for message in self._after(seen, from_first, with_evictions):
                    seen = message.version
                    yield message
            else:
                await news.wait()

    def close(self) -> None:
        """End all watches."""
        self._closed = True
        self._announce()

    def _after(self, seen: int, from_first: bool, with_evictions: bool) -> list[WatchSessionsResponse]:
        whole = bool(self._ring) and self._ring[0].version == 1
        if seen < 0 and from_first and whole:
            return list(self._ring)
        if seen < 0 or not self._ring or seen < self._ring[0].version - 1:
            return [self.everything(with_evictions=with_evictions)]
        return [message for message in self._ring if message.version > seen]

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _sayable(update: SessionUpdate, part: str, failures: list[FailedOver]) -> tuple[Any, ...]:
    """Those of a part's items that there is a message for. Failures over the others are added."""

    def alone(item: Any) -> bool:
        try:
            changes: dict[str, Any] = {part: (item,)}
            encode_update(replace(_EMPTY, **changes))
        except Exception as error:  # noqa: BLE001 (that is the question)
            failures.append(FailedOver(_PARTS[part](item), error))
            return False
        return True

    return tuple(filter(alone, getattr(update, part)))


def is_pending(outcome: PodGroupOutcome) -> bool:
    """Whether something of the group waits for resources or for time."""
    waits = outcome.outcome in (Outcome.PIPELINED, Outcome.UNSCHEDULABLE, Outcome.NOT_READY)
    return waits or bool(outcome.staleness)
