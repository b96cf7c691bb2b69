"""Queues whose newest version a scheduler cannot take in, as a condition of their status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.kube.resources import QUEUES
from kai.model import condition_texts, names
from kai.model.faults import Fault
from kai.model.objects import Json, ObjectMeta
from kai.wire.sessions import SessionUpdate

_KIND: Final = QUEUES.kind


class QueueFaults:
    """What is wrong with queues, by scheduler (shard) and name."""

    def __init__(self, *, nodepool_label_key: str) -> None:
        """A queue's label of this key names its node pool; without a key each is of all."""
        self._label_key = nodepool_label_key
        self._by_shard: dict[str, dict[str, Fault]] = {}
        #: Queues (by name) that something was wrong with since we began.
        self._found: set[str] = set()
        #: Node pools whose schedulers have told what is wrong.
        self._told: set[str] = set()

    def conditions(self, queue: ObjectMeta, stored: Sequence[Json]) -> list[Json] | None:
        """The conditions of a queue; None if they say so already.

        What schedulers have told since we began is taken back when none of them says so any more. What a
        queue said before may be of any: that nothing is wrong with it only the scheduler of its own node pool
        knows, since others do not look at all of it, and until that has told anything it stands. What is
        wrong with one that had its name before is nothing to it.
        """
        found = (faults.get(queue.name) for faults in self._by_shard.values())
        own = (fault for fault in found if fault is not None and fault.uid in ("", queue.uid))
        fault = next(own, None)
        known = fault is not None or queue.name in self._found or self._knows(queue)
        return with_condition(stored, fault) if known else None

    def forget(self, queue: str) -> None:
        """There is no queue of this name any more."""
        self._found.discard(queue)

    def _knows(self, queue: ObjectMeta) -> bool:
        """Whether the scheduler of its own node pool has told what is wrong."""
        if not self._label_key:
            return bool(self._told)
        return ((queue.labels or {}).get(self._label_key) or names.DEFAULT_NODE_POOL) in self._told

    def take(self, shard: str, update: SessionUpdate) -> bool:
        """Take in an update of a shard's scheduler; whether it changes anything."""
        # Of one that is gone nobody tells which pool it had, nor anything.
        told = {update.node_pool or names.DEFAULT_NODE_POOL} - self._told if update.version else set()
        self._told |= told
        old = self._by_shard.get(shard, {})
        gone = {key for kind, key in update.cured if kind == _KIND}
        new = {} if update.full else {name: fault for name, fault in old.items() if name not in gone}
        new |= {fault.key: fault for fault in update.faults if fault.kind == _KIND}
        self._by_shard[shard] = new
        self._found |= new.keys()
        return bool(told) or new != old


def with_condition(conditions: Sequence[Json], fault: Fault | None) -> list[Json] | None:
    """The conditions of a queue with this fault, or with none; None if they say so already."""
    others = [each for each in conditions if each.get("type") != names.QUEUE_ACCEPTED]
    mine = [each for each in conditions if each.get("type") == names.QUEUE_ACCEPTED]
    if fault is None:
        return others if mine else None
    wanted = {
        "type": names.QUEUE_ACCEPTED,
        "status": "False",
        "reason": fault.reason,
        "message": condition_texts.bounded(fault.message),
    }
    return None if mine == [wanted] else [*others, wanted]
