"""What queues would be given at one moment: the division of resources, as at the start of a cycle.

The input is that of the original's ``fairshare-simulator``: what there is to divide, and the queues with
what they deserve, may have and ask for. Beyond it, queues may have parents in the same input, and use of the
past may count (``kValue``, and ``usage`` of a resource).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from kai.engine.fairness.division import divide_forest
from kai.engine.fairness.queues import UNLIMITED, QueueColumns, QueueForest
from kai.model.decisions import ResourceVector
from kai.simulate.reading import Fields, InvalidInput, ordered

#: In the order of vectors.
RESOURCES: Final = ("cpu", "memory", "gpu")
_INPUT: Final = ("totalResource", "queues", "kValue")
_QUEUE: Final = (
    "uid", "name", "parentQueue", "childQueues", "creationTimestamp", "priority", "resourceShare",
)  # fmt: skip
#: What is known of a queue that has no say in what it is given, and why.
_WITHOUT_EFFECT: Final = {
    "fairShare": "it is what is worked out",
    "allocated": "what is held is part of the request",
    "allocatedNotPreemptible": "what is held is part of the request",
    "absoluteUsage": "past use is said as usage, the part of the cluster that was used, from 0 to 1",
    "vacantAdjustedUsage": "past use is said as usage, the part of the cluster that was used, from 0 to 1",
}
_RESOURCE: Final = (
    "deserved", "maxAllowed", "overQuotaWeight", "request", "usage", *_WITHOUT_EFFECT,
)  # fmt: skip
#: Who does not say what it asks for asks for more than there is.
_MUCH: Final = 100_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Of one queue and one resource; ``request`` is None where a parent asks for what its children do."""

    deserved: float
    limit: float
    weight: float
    request: float | None
    usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemands:
    """What a queue asks for. ``created`` is in Unix seconds; who says nothing is younger than who does."""

    uid: str
    name: str
    parent: str
    priority: int
    created: float
    demands: tuple[Demand, Demand, Demand]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What there is to divide, and among whom; parents before children. ``notes``: what has no effect."""

    total: ResourceVector
    queues: tuple[QueueDemands, ...]
    k: float
    notes: tuple[str, ...]

    @classmethod
    def read(cls, document: Any) -> Question:
        """Read the JSON form.

        Raises:
            InvalidInput: something is unknown, or cannot be meant.
        """
        fields = Fields(document, where="", known=_INPUT)
        total = fields.within("totalResource", known=RESOURCES)
        notes: list[str] = []
        queues = [
            _Reader(each, where=f"queues[{number}]", notes=notes)
            for number, each in enumerate(fields.listed("queues"))
        ]
        cpu, memory, gpu = (total.number(name, default=0.0, least=0.0) for name in RESOURCES)
        return cls(
            total=(cpu, memory, gpu),
            queues=_tree(queues, notes),
            k=fields.number("kValue", default=0.0, least=0.0),
            notes=tuple(notes),
        )


def divide(question: Question) -> dict[str, ResourceVector]:
    """The fair share of CPU, memory and GPUs of each queue, by uid, in the order of the question."""
    queues = question.queues
    row = {queue.uid: place for place, queue in enumerate(queues)}
    by_age = sorted(
        range(len(queues)), key=lambda place: (queues[place].created, *_tie(queues[place], place))
    )
    rank = [0] * len(queues)
    for age, place in enumerate(by_age):
        rank[place] = age
    forest = QueueForest(
        [row.get(queue.parent, -1) for queue in queues],
        priority=[queue.priority for queue in queues],
        rank=rank,
    )
    columns = _columns(queues)
    _ask_for_children(forest.parent, queues, columns)
    divide_forest(forest, columns, np.array(question.total), k=question.k)
    shares = columns.fair_share.tolist()
    return {queue.uid: tuple(shares[place]) for place, queue in enumerate(queues)}


def _tie(queue: QueueDemands, place: int) -> tuple[int, str]:
    """Of equal age: in the order of the input, or by uid where a time is said."""
    return (place, "") if math.isinf(queue.created) else (0, queue.uid)


def _columns(queues: Iterable[QueueDemands]) -> QueueColumns:
    listed = list(queues)
    columns = QueueColumns.zeros(len(listed))
    for place, queue in enumerate(listed):
        for resource, demand in enumerate(queue.demands):
            columns.deserved[place, resource] = demand.deserved
            columns.limit[place, resource] = demand.limit
            columns.weight[place, resource] = demand.weight
            columns.usage[place, resource] = demand.usage
            columns.request[place, resource] = demand.request or 0.0
    return columns


def _ask_for_children(parents: list[int], queues: tuple[QueueDemands, ...], columns: QueueColumns) -> None:
    """From the bottom up: parents that say nothing ask for what their children do."""
    for place in reversed(range(len(queues))):
        parent = parents[place]
        for resource in range(len(RESOURCES)):
            if parent >= 0 and queues[parent].demands[resource].request is None:
                columns.request[parent, resource] += columns.request[place, resource]


# --- reading --------------------------------------------------------------------------------------
class _Reader:
    """One queue as it was written."""

    def __init__(self, value: Any, *, where: str, notes: list[str]) -> None:
        fields = Fields(value, where=where, known=_QUEUE)
        self.uid = fields.text("uid") or fields.text("name")
        if not self.uid:
            raise InvalidInput(f"{where}.uid is missing; give the queue one")
        self.name = fields.text("name") or self.uid
        self.parent = fields.text("parentQueue")
        self.children = [str(each) for each in fields.listed("childQueues")]
        self.priority = fields.whole("priority", default=0, least=-(2**31), most=2**31)
        self.created = _created(fields)
        self._shares = fields.within("resourceShare", known=RESOURCES)
        self._notes = notes

    def queue(self, *, parent: str, has_children: bool) -> QueueDemands:
        cpu, memory, gpu = (self._demand(name, has_children=has_children) for name in RESOURCES)
        return QueueDemands(
            uid=self.uid,
            name=self.name,
            parent=parent,
            priority=self.priority,
            created=self.created,
            demands=(cpu, memory, gpu),
        )

    def _demand(self, resource: str, *, has_children: bool) -> Demand:
        """What is said of a resource; of CPU and memory all is deserved where nothing is said."""
        said = self._shares.has(resource)
        fields = self._shares.within(resource, known=_RESOURCE)
        self._notes += [
            f"{fields.place(key)} has no effect: {why}"
            for key, why in _WITHOUT_EFFECT.items()
            if fields.number(key, default=0.0)
        ]
        usage = fields.number("usage", default=0.0, least=0.0)
        if usage > 1:
            raise InvalidInput(
                f"{fields.place('usage')} is {usage:g}; it must be a part of the cluster, 0 to 1"
            )
        asks = fields.number("request", default=_MUCH, least=0.0)
        return Demand(
            deserved=fields.unlimited("deserved", default=0.0 if said or resource == "gpu" else UNLIMITED),
            limit=fields.unlimited("maxAllowed", default=UNLIMITED),
            weight=fields.number("overQuotaWeight", default=1.0, least=0.0),
            request=asks if fields.has("request") or not has_children else None,
            usage=usage,
        )


def _created(fields: Fields) -> float:
    text = fields.text("creationTimestamp")
    if not text:
        return math.inf
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{fields.place('creationTimestamp')} is {text!r}; write a time such as 2030-01-31T12:00:00Z"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _tree(readers: list[_Reader], notes: list[str]) -> tuple[QueueDemands, ...]:
    """The queues, parents before children."""
    by_uid: dict[str, _Reader] = {}
    for reader in readers:
        if reader.uid in by_uid:
            raise InvalidInput(f"queue {reader.uid!r} is there twice; name it once")
        by_uid[reader.uid] = reader
    parents = _parents(by_uid)
    notes += [
        f"queue {uid!r} counts as a top queue: its parent {parent!r} is not among the queues"
        for uid, parent in parents.items()
        if parent and parent not in by_uid
    ]
    with_children = set(parents.values())
    return tuple(
        by_uid[uid].queue(parent=parents[uid], has_children=uid in with_children) for uid in ordered(parents)
    )


def _parents(by_uid: Mapping[str, _Reader]) -> dict[str, str]:
    """The parent of each queue, said by itself or by the parent."""
    parents = {uid: reader.parent for uid, reader in by_uid.items()}
    for uid, reader in by_uid.items():
        for child in reader.children:
            if child not in parents:
                raise InvalidInput(
                    f"queue {uid!r} has a child {child!r} that is not among the queues; add it"
                )
            if parents[child] not in ("", uid):
                raise InvalidInput(
                    f"queue {child!r} has two parents, {parents[child]!r} and {uid!r}; leave one of them"
                )
            parents[child] = uid
    return parents
