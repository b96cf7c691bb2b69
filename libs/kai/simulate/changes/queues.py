"""Changes of queues."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from kai.engine.reasons.amounts import amount_text
from kai.model.objects import QueueResource, QueueResources
from kai.model.rules.queue_amounts import UNITS
from kai.simulate.changes.change import patch, queue_object
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.state import ClusterState

#: As Queue objects name them, with the columns of their amounts.
RESOURCES: Final[Mapping[str, int]] = {"cpu": CPU, "memory": MEMORY, "gpu": GPU}


class Bound(StrEnum):
    """What a queue says of a resource, by the field of the Queue object."""

    QUOTA = "quota"
    LIMIT = "limit"
    WEIGHT = "overQuotaWeight"

    @property
    def words(self) -> str:
        """As people say it."""
        return "over-quota weight" if self is Bound.WEIGHT else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBounds:
    """Set quota, limit or weight of a queue for one resource or several.

    Amounts are those of Queue objects: GPUs in devices, CPU in millicores, memory in millions of bytes; -1 is
    unlimited.
    """

    queue: str
    bound: Bound
    amounts: Mapping[str, float]

    @property
    def text(self) -> str:
        """What to do."""
        return f"set the {self.bound.words} of queue {self.queue!r} to {self._amounts()}"

    def _amounts(self) -> str:
        if self.bound is Bound.WEIGHT:
            return " and ".join(f"{amount:g} for {name}" for name, amount in self.amounts.items())
        return " and ".join(
            amount_text(RESOURCES[name], amount if amount < 0 else amount * UNITS[name])
            for name, amount in self.amounts.items()
        )

    def command(self, state: ClusterState) -> str | None:
        """A patch of the queue."""
        del state
        resources = {name: {self.bound.value: _plain(amount)} for name, amount in self.amounts.items()}
        return patch(shlex.quote(f"queue/{self.queue}"), "", {"spec": {"resources": resources}})

    def make(self, journal: Journal) -> None:
        """Put another version of the queue."""
        obj = queue_object(journal.state, self.queue)
        resources = obj.spec.resources or QueueResources()
        field = _FIELDS[self.bound]
        for name, amount in self.amounts.items():
            known: QueueResource = getattr(resources, name)
            changed: Any = msgspec.structs.replace(known, **{field: amount})
            resources = msgspec.structs.replace(resources, **{name: changed})
        spec = msgspec.structs.replace(obj.spec, resources=resources)
        journal.put(Kind.QUEUE, msgspec.structs.replace(obj, spec=spec))


_FIELDS: Final = {Bound.QUOTA: "quota", Bound.LIMIT: "limit", Bound.WEIGHT: "over_quota_weight"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue:
    """Delete a queue; what runs in it runs on, as nobody's, and is the first to make room."""

    queue: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"delete queue {self.queue!r}"

    def command(self, state: ClusterState) -> str | None:
        """The deletion."""
        del state
        return f"kubectl delete queue {shlex.quote(self.queue)}"

    def make(self, journal: Journal) -> None:
        """Drop the queue."""
        queue_object(journal.state, self.queue)
        journal.drop(Kind.QUEUE, self.queue)


def _plain(amount: float) -> float | int:
    return int(amount) if amount == int(amount) else amount
