"""What is kept: one record for each thing that happened. Fields are columns; times are Unix seconds.

Texts that somebody else wrote are cut, so that nobody can fill the store by long ones. What a field means
stands with it, for those who describe the records to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Final, TypeAlias

from kai.history.databases import Value

#: Of a message so many characters are kept.
MESSAGE_CHARACTERS: Final = 1000
#: Of a name so many: Kubernetes has no longer ones, before which a kind may stand.
NAME_CHARACTERS: Final = 320
_MEANING: Final = "meaning"


def means(text: str) -> Mapping[str, str]:
    """The metadata of a field that says what it means."""
    return {_MEANING: text}


def meaning_of(of: Field[Any]) -> str:
    """What a field means, as :func:`means` said it."""
    return str(of.metadata[_MEANING])


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

    pod_uid: str = field(metadata=means("UID of the pod."))
    began: float = field(metadata=means("When it began."))
    created: float = field(metadata=means("When the pod was created."))
    namespace: str = field(metadata=means("Namespace of the pod."))
    pod: str = field(metadata=means("Name of the pod."))
    pod_group: str = field(
        default="", metadata=means("Its pod group in the same namespace; empty if it has none.")
    )
    queue: str = field(default="", metadata=means("Queue that was charged."))
    user_name: str = field(default="", metadata=means("User whose workload it was; empty if nobody says."))
    workload: str = field(default="", metadata=means("Kind/name of what owns the pod group."))
    node: str = field(default="", metadata=means("Node that it ran on."))
    cpu_millis: int = field(default=0, metadata=means("Thousandths of CPUs that it held."))
    memory_bytes: int = field(default=0, metadata=means("Bytes of memory that it held."))
    gpus: float = field(default=0.0, metadata=means("GPUs that it held, whole ones and parts of them."))
    ended: float | None = field(default=None, metadata=means("When it ended; null while it lasts."))
    #: One of :class:`Ending`.
    ending: str = field(
        default="",
        metadata=means(
            "Succeeded, Failed, Evicted, Deleted, Changed (it went on otherwise) or Unseen; empty while it "
            "lasts."
        ),
    )


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

    pod_uid: str = field(metadata=means("UID of the pod that lost its place."))
    at: float = field(metadata=means("When that was decided."))
    shard: str = field(metadata=means("Shard whose scheduler decided."))
    epoch: int = field(metadata=means("Term of office of that scheduler."))
    cycle: int = field(metadata=means("Its cycle."))
    namespace: str = field(metadata=means("Namespace of the pod."))
    pod: str = field(metadata=means("Name of the pod."))
    pod_group: str = field(default="", metadata=means("Pod group of the pod."))
    queue: str = field(default="", metadata=means("Queue of the pod."))
    action: str = field(metadata=means("Action of the scheduler, such as reclaim or preempt."))
    gpus: float = field(default=0.0, metadata=means("GPUs that the pod held."))
    for_namespace: str = field(
        default="", metadata=means("Namespace of the pod group that profits; empty where none does.")
    )
    for_pod_group: str = field(default="", metadata=means("Name of the pod group that profits."))
    for_queue: str = field(default="", metadata=means("Queue of the pod group that profits."))
    message: str = field(default="", metadata=means("Why, for people."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle(Record):
    """A cycle in which something changed."""

    table: ClassVar[str] = "kai_cycles"
    key: ClassVar[tuple[str, ...]] = ("shard", "epoch", "cycle")

    shard: str = field(metadata=means("Shard whose scheduler it was of."))
    epoch: int = field(metadata=means("Term of office of that scheduler."))
    cycle: int = field(metadata=means("Number of the cycle in that term."))
    at: float = field(metadata=means("When it began."))
    binds: int = field(default=0, metadata=means("Pods that got places."))
    evictions: int = field(default=0, metadata=means("Pods that lost theirs."))
    nominations: int = field(default=0, metadata=means("Pods that are to follow pods that go."))
    outcomes: int = field(
        default=0, metadata=means("Pod groups of which it found something else than the one before.")
    )
    waiting: int = field(
        default=0, metadata=means("Pod groups that it could not place, of all that it knows.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Record):
    """A pod group that stands otherwise than before: placed, waiting for another reason, gone."""

    table: ClassVar[str] = "kai_decisions"
    key: ClassVar[tuple[str, ...]] = ("namespace", "pod_group", "at")

    namespace: str = field(metadata=means("Namespace of the pod group."))
    pod_group: str = field(metadata=means("Name of the pod group."))
    at: float = field(metadata=means("Since when it stands so."))
    shard: str = field(metadata=means("Shard whose scheduler found it so."))
    epoch: int = field(metadata=means("Term of office of that scheduler."))
    cycle: int = field(metadata=means("Its cycle."))
    queue: str = field(default="", metadata=means("Queue of the pod group."))
    outcome: str = field(
        metadata=means("Settled, Placed, Pipelined, Unschedulable, NotReady, or Gone: it exists no more.")
    )
    reason: str = field(default="", metadata=means("Why it waits, as a word."))
    message: str = field(default="", metadata=means("Why it waits, for people."))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState(Record):
    """What a queue held and was due at a moment: GPUs, thousandths of CPUs, bytes; -1 is unlimited."""

    table: ClassVar[str] = "kai_queue_states"
    key: ClassVar[tuple[str, ...]] = ("queue", "shard", "at")

    queue: str = field(metadata=means("Name of the queue."))
    shard: str = field(metadata=means("Shard whose scheduler says so."))
    at: float = field(metadata=means("The moment."))
    parent: str = field(default="", metadata=means("Queue above it; empty if it has none."))
    quota_gpus: float = field(default=0.0, metadata=means("GPUs of its quota; -1 is unlimited."))
    limit_gpus: float = field(default=0.0, metadata=means("GPUs of its limit; -1 is unlimited."))
    fair_share_gpus: float = field(default=0.0, metadata=means("GPUs that it was due; -1 is unlimited."))
    allocated_gpus: float = field(default=0.0, metadata=means("GPUs that it held."))
    requested_gpus: float = field(default=0.0, metadata=means("GPUs that it asked for."))
    allocated_cpu_millis: float = field(default=0.0, metadata=means("Thousandths of CPUs that it held."))
    allocated_memory_bytes: float = field(default=0.0, metadata=means("Bytes of memory that it held."))


AnyRecord: TypeAlias = Run | Taking | Cycle | Decision | QueueState
RECORDS: Final[tuple[type[AnyRecord], ...]] = (Run, Taking, Cycle, Decision, QueueState)


def cut(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """A text as it is kept. PostgreSQL has no NUL in texts."""
    return text.replace("\0", "")[:most]


def columns(kind: type[AnyRecord]) -> tuple[str, ...]:
    """The columns of a table, in the order of the record's fields."""
    return tuple(each.name for each in fields(kind))


def texts(kind: type[AnyRecord]) -> tuple[str, ...]:
    """The columns that are texts: by what they say rows can be picked."""
    return tuple(each.name for each in fields(kind) if each.type == "str")


def values(record: AnyRecord) -> list[Value]:
    """A record as a row."""
    return [getattr(record, name) for name in columns(type(record))]
