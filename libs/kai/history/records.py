"""What is kept: one record for each thing that happened. Fields are columns; times are Unix seconds.

Texts that somebody else wrote are cut, so that nobody can fill the store by long ones.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Final, TypeAlias

from kai.history.databases import Value

#: Of a message so many characters are kept.
MESSAGE_CHARACTERS: Final = 1000


class Record:
    """One row. ``key`` is what tells it from others of its table: a second one replaces the first."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Record):
    """A time in which a pod held the same things for the same queue and user on one node.

    A pod whose amounts or queue change has several, each beginning where the one before it ended.
    """

    table: ClassVar[str] = "kai_runs"
    key: ClassVar[tuple[str, ...]] = ("pod_uid", "began")

    pod_uid: str
    began: float
    #: When the pod was created.
    created: float
    namespace: str
    pod: str
    #: Name of its pod group in the same namespace; empty if it has none.
    pod_group: str = ""
    queue: str = ""
    user_name: str = ""
    #: ``Kind/name`` of what owns the pod group.
    workload: str = ""
    node: str = ""
    cpu_millis: int = 0
    memory_bytes: int = 0
    #: Whole GPUs, and portions of them.
    gpus: float = 0.0
    #: None while it lasts.
    ended: float | None = None
    #: How it ended, one of :class:`Ending`; empty while it lasts.
    ending: str = ""


class Ending:
    """How a run ended."""

    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    EVICTED: Final = "Evicted"
    DELETED: Final = "Deleted"
    #: The pod went on with other amounts, or for another queue.
    CHANGED: Final = "Changed"
    #: It went while nobody was looking: the time is when it was last seen.
    UNSEEN: Final = "Unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking(Record):
    """A pod that a scheduler took its place from."""

    table: ClassVar[str] = "kai_evictions"
    key: ClassVar[tuple[str, ...]] = ("pod_uid", "at")

    pod_uid: str
    at: float
    shard: str
    epoch: int
    cycle: int
    namespace: str
    pod: str
    pod_group: str = ""
    queue: str = ""
    action: str
    gpus: float = 0.0
    #: Namespace, name and queue of the pod group that profits; empty where none does.
    for_namespace: str = ""
    for_pod_group: str = ""
    for_queue: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle(Record):
    """A cycle in which something changed."""

    table: ClassVar[str] = "kai_cycles"
    key: ClassVar[tuple[str, ...]] = ("shard", "epoch", "cycle")

    shard: str
    epoch: int
    cycle: int
    at: float
    binds: int = 0
    evictions: int = 0
    nominations: int = 0
    #: Pod groups of which it found something else than the one before.
    outcomes: int = 0
    #: Pod groups that it could not place, of all that it knows.
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Record):
    """A pod group that stands otherwise than before: placed, waiting for another reason, gone."""

    table: ClassVar[str] = "kai_decisions"
    key: ClassVar[tuple[str, ...]] = ("namespace", "pod_group", "at")

    namespace: str
    pod_group: str
    at: float
    shard: str
    epoch: int
    cycle: int
    queue: str = ""
    outcome: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState(Record):
    """What a queue held and was due at a moment: GPUs, thousandths of CPUs, bytes; -1 is unlimited."""

    table: ClassVar[str] = "kai_queue_states"
    key: ClassVar[tuple[str, ...]] = ("queue", "shard", "at")

    queue: str
    shard: str
    at: float
    parent: str = ""
    quota_gpus: float = 0.0
    limit_gpus: float = 0.0
    fair_share_gpus: float = 0.0
    allocated_gpus: float = 0.0
    requested_gpus: float = 0.0
    allocated_cpu_millis: float = 0.0
    allocated_memory_bytes: float = 0.0


AnyRecord: TypeAlias = Run | Taking | Cycle | Decision | QueueState
RECORDS: Final[tuple[type[AnyRecord], ...]] = (Run, Taking, Cycle, Decision, QueueState)


def cut(text: str) -> str:
    """A message as it is kept. PostgreSQL has no NUL in texts."""
    return text.replace("\0", "")[:MESSAGE_CHARACTERS]


def columns(kind: type[AnyRecord]) -> tuple[str, ...]:
    """The columns of a table, in the order of the record's fields."""
    return tuple(each.name for each in fields(kind))


def values(record: AnyRecord) -> list[Value]:
    """A record as a row."""
    return [getattr(record, name) for name in columns(type(record))]
