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

    def __init__(self) -> None:
        self._by_shard: dict[str, dict[str, Fault]] = {}

    def conditions(self, queue: ObjectMeta, stored: Sequence[Json]) -> list[Json] | None:
        """The conditions of a queue; None if they say so already, or while no scheduler has told anything.

        What is wrong with one that had its name before is nothing to it.
        """
        if not self._by_shard:
            return None
        found = (faults.get(queue.name) for faults in self._by_shard.values())
        own = (fault for fault in found if fault is not None and fault.uid in ("", queue.uid))
        return with_condition(stored, next(own, None))

    def take(self, shard: str, update: SessionUpdate) -> bool:
        """Take in an update of a shard's scheduler; whether it changes anything."""
        first = not self._by_shard
        old = self._by_shard.get(shard, {})
        gone = {key for kind, key in update.cured if kind == _KIND}
        new = {} if update.full else {name: fault for name, fault in old.items() if name not in gone}
        new |= {fault.key: fault for fault in update.faults if fault.kind == _KIND}
        self._by_shard[shard] = new
        return first or new != old


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
