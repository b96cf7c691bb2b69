"""Sessions as the scheduler publishes them, between plain values and the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.model.decisions import (
    Eviction,
    Explanation,
    Nomination,
    Outcome,
    PodGroupOutcome,
    PodRef,
    QueuedGroup,
    QueueShare,
    ResourceVector,
)
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.wire.columns import join, pack, split, unpack
from kai.wire.errors import MalformedMessage
from kai.wire.v1 import session_pb2 as pb

#: The float columns of QueueShares, named alike in the model and on the wire.
_TRIPLES: Final = (
    "deserved",
    "limit",
    "over_quota_weight",
    "fair_share",
    "allocated",
    "allocated_non_preemptible",
    "requested",
    "usage",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate:
    """What one session changed, or (``full``) everything there is to know now.

    Shares are always those of all queues, and empty if none changed; outcomes are those that changed.
    Evictions, nominations and ``binds`` (their number) are events of this session alone: a full update
    has none of earlier sessions. ``kept``, in a full update for who asked for it, has the evictions of
    sessions (by version, in order) that the scheduler keeps.
    """

    version: int
    epoch: int
    #: Unix seconds.
    opened_at: float
    full: bool = False
    digest: str = ""
    shard: str = ""
    node_pool: str = ""
    shares: tuple[QueueShare, ...] = ()
    outcomes: tuple[PodGroupOutcome, ...] = ()
    #: Pod groups (namespace/name) that are gone.
    forgotten: tuple[str, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    nominations: tuple[Nomination, ...] = ()
    binds: int = 0
    #: Objects that scheduling goes on without: those that are new or changed, in a full update all.
    faults: tuple[Fault, ...] = ()
    #: Objects (kind, ``namespace/name``) that it goes on with again, or that are gone.
    cured: tuple[tuple[str, str], ...] = ()
    #: What is divided among the queues: CPU millicores, memory bytes, GPU devices; None if it did not change.
    capacity: ResourceVector | None = None
    kept: tuple[tuple[int, tuple[Eviction, ...]], ...] = ()


def encode_update(update: SessionUpdate) -> pb.WatchSessionsResponse:
    """The message of an update."""
    return pb.WatchSessionsResponse(
        version=update.version,
        epoch=update.epoch,
        opened_at=update.opened_at,
        digest=update.digest,
        full=update.full,
        shard=update.shard,
        node_pool=update.node_pool,
        shares=encode_shares(update.shares),
        outcomes=[encode_outcome(outcome) for outcome in update.outcomes],
        forgotten=update.forgotten,
        evictions=[_encode_eviction(eviction) for eviction in update.evictions],
        nominations=[
            pb.Nomination(
                pod_uid=item.pod.uid,
                namespace=item.pod.namespace,
                name=item.pod.name,
                pod_group=item.pod.pod_group,
                node=item.node,
            )
            for item in update.nominations
        ],
        binds=update.binds,
        faults=[
            pb.Fault(kind=each.kind, key=each.key, uid=each.uid, reason=each.reason, message=each.message)
            for each in update.faults
        ],
        cured=[pb.Fault(kind=kind, key=key) for kind, key in update.cured],
        capacity=pack(update.capacity or (), "d"),
        kept=[
            pb.SessionEvictions(version=version, evictions=map(_encode_eviction, evictions))
            for version, evictions in update.kept
        ],
    )


def decode_update(message: pb.WatchSessionsResponse) -> SessionUpdate:
    """The update in a message.

    Raises:
        MalformedMessage: a column's length is not the row count.
    """
    return SessionUpdate(
        version=message.version,
        epoch=message.epoch,
        opened_at=message.opened_at,
        digest=message.digest,
        full=message.full,
        shard=message.shard,
        node_pool=message.node_pool,
        shares=decode_shares(message.shares),
        outcomes=tuple(decode_outcome(outcome) for outcome in message.outcomes),
        forgotten=tuple(message.forgotten),
        evictions=tuple(_decode_eviction(eviction) for eviction in message.evictions),
        nominations=tuple(Nomination(pod=_pod(item), node=item.node) for item in message.nominations),
        binds=message.binds,
        faults=tuple(
            Fault(kind=each.kind, key=each.key, uid=each.uid, reason=each.reason, message=each.message)
            for each in message.faults
        ),
        cured=tuple((each.kind, each.key) for each in message.cured),
        capacity=_capacity(message.capacity),
        kept=tuple((each.version, tuple(map(_decode_eviction, each.evictions))) for each in message.kept),
    )


def _capacity(column: bytes) -> ResourceVector | None:
    if not column:
        return None
    cpu, memory, gpus = unpack(column, "d", count=3, field="WatchSessionsResponse.capacity")
    return cpu, memory, gpus


# --- queue shares ------------------------------------------------------------------------------
def encode_shares(shares: Sequence[QueueShare]) -> pb.QueueShares:
    """Queue shares as columns. A display name is free text: a newline in it becomes a space."""
    triples = {
        name: pack((part for share in shares for part in getattr(share, name)), "d") for name in _TRIPLES
    }
    return pb.QueueShares(
        rows=len(shares),
        queues=join([share.queue for share in shares], field="QueueShares.queues"),
        display_names=join(
            [share.display_name.replace("\n", " ") for share in shares], field="QueueShares.display_names"
        ),
        parents=join([share.parent for share in shares], field="QueueShares.parents"),
        priority=pack((share.priority for share in shares), "i"),
        **triples,
    )


def encode_service_order(line: Sequence[QueuedGroup]) -> pb.GetServiceOrderResponse:
    """Those that wait as columns."""
    return pb.GetServiceOrderResponse(
        rows=len(line),
        pod_groups=join([each.pod_group for each in line], field="ServiceOrder.pod_groups"),
        queues=join([each.queue for each in line], field="ServiceOrder.queues"),
        priority=pack((each.priority for each in line), "i"),
        ahead_by=join([each.ahead_by for each in line], field="ServiceOrder.ahead_by"),
    )


def decode_service_order(message: pb.GetServiceOrderResponse) -> tuple[QueuedGroup, ...]:
    """The reverse of :func:`encode_service_order`.

    Raises:
        MalformedMessage: a column's length is not the row count.
    """
    rows = message.rows

    def texts(name: str) -> list[str]:
        return split(getattr(message, name), rows=rows, field=f"ServiceOrder.{name}")

    priorities = unpack(message.priority, "i", count=rows, field="ServiceOrder.priority")
    return tuple(
        QueuedGroup(pod_group=group, queue=queue, priority=priority, ahead_by=ahead_by)
        for group, queue, priority, ahead_by in zip(
            texts("pod_groups"), texts("queues"), priorities, texts("ahead_by"), strict=True
        )
    )


def decode_shares(message: pb.QueueShares) -> tuple[QueueShare, ...]:
    """The reverse of :func:`encode_shares`.

    Raises:
        MalformedMessage: a column's length is not the row count.
    """
    rows = message.rows

    def texts(name: str) -> list[str]:
        return split(getattr(message, name), rows=rows, field=f"QueueShares.{name}")

    queues, display_names, parents = texts("queues"), texts("display_names"), texts("parents")
    priorities = unpack(message.priority, "i", count=rows, field="QueueShares.priority")
    triples: dict[str, Any] = {
        name: unpack(getattr(message, name), "d", count=3 * rows, field=f"QueueShares.{name}")
        for name in _TRIPLES
    }
    return tuple(
        QueueShare(
            queue=queues[row],
            display_name=display_names[row],
            parent=parents[row],
            priority=priorities[row],
            **{name: column[3 * row : 3 * row + 3] for name, column in triples.items()},
        )
        for row in range(rows)
    )


# --- pod groups --------------------------------------------------------------------------------
def encode_outcome(outcome: PodGroupOutcome) -> pb.PodGroupOutcome:
    """One pod group's outcome as a message."""
    return pb.PodGroupOutcome(
        pod_group=outcome.pod_group,
        uid=outcome.uid,
        outcome=pb.PodGroupOutcome.Outcome.ValueType(outcome.outcome),
        message=outcome.message,
        explanations=[
            pb.Explanation(
                reason=item.reason,
                message=item.message,
                details=b"" if item.details is None else msgspec.json.encode(item.details),
            )
            for item in outcome.explanations
        ],
        pod_messages=outcome.pod_messages,
        invalid_pods=outcome.invalid_pods,
        staleness=outcome.staleness,
        set_annotations={key: value for key, value in outcome.annotations.items() if value is not None},
        remove_annotations=[key for key, value in outcome.annotations.items() if value is None],
        write_condition=outcome.write_condition,
        clear_conditions=outcome.clear_conditions,
        core_pods=outcome.core_pods,
    )


def decode_outcome(message: pb.PodGroupOutcome) -> PodGroupOutcome:
    """The reverse of :func:`encode_outcome`.

    Raises:
        MalformedMessage: the outcome is unknown to us, or details are not JSON.
    """
    try:
        return PodGroupOutcome(
            pod_group=PodGroupKey(message.pod_group),
            uid=message.uid,
            outcome=Outcome(message.outcome),
            message=message.message,
            explanations=tuple(
                Explanation(
                    reason=item.reason,
                    message=item.message,
                    details=msgspec.json.decode(item.details) if item.details else None,
                )
                for item in message.explanations
            ),
            pod_messages=dict(message.pod_messages),
            invalid_pods=tuple(message.invalid_pods),
            staleness=message.staleness,
            annotations={**message.set_annotations, **dict.fromkeys(message.remove_annotations)},
            write_condition=message.write_condition,
            clear_conditions=message.clear_conditions,
            core_pods=tuple(message.core_pods),
        )
    except (ValueError, msgspec.DecodeError) as error:
        raise MalformedMessage(f"PodGroupOutcome {message.pod_group}: {error}") from error


def _encode_eviction(eviction: Eviction) -> pb.Eviction:
    return pb.Eviction(
        pod_uid=eviction.pod.uid,
        namespace=eviction.pod.namespace,
        name=eviction.pod.name,
        pod_group=eviction.pod.pod_group,
        action=eviction.action,
        message=eviction.message,
        gang_size=eviction.gang_size,
        evictor=eviction.evictor,
    )


def _decode_eviction(message: pb.Eviction) -> Eviction:
    return Eviction(
        pod=_pod(message),
        action=message.action,
        message=message.message,
        gang_size=message.gang_size,
        evictor=PodGroupKey(message.evictor),
    )


def _pod(message: pb.Eviction | pb.Nomination) -> PodRef:
    return PodRef(
        uid=PodUid(message.pod_uid),
        namespace=message.namespace,
        name=message.name,
        pod_group=PodGroupKey(message.pod_group),
    )
