"""Decisions and their results, between plain values and the wire.

Both sides of the stream send something at least every :data:`HEARTBEAT_SECONDS` (an empty message if
there is nothing to say), and take a peer that is silent for :data:`SILENCE_SECONDS` for lost. That is
below the scheduler's lease duration (15 s): a binder that cannot hear its leader any more has stopped
working for it before another one can be elected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.model.ids import PodUid
from kai.wire.columns import join, pack, split, unpack
from kai.wire.errors import MalformedMessage
from kai.wire.v1 import decision_pb2 as pb

HEARTBEAT_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = 10.0
#: What the time limits of a bind add up to by default: for volumes, for claims and for a shared device.
BIND_SECONDS: Final = 280.0
#: Of decisions in one message, where it has several: a quarter of what a message may have.
PART_BYTES: Final = 16 << 20
#: Results in one message, and characters of a reason: together what a server takes, which is 8 MiB.
MOST_RESULTS: Final = 1000
_LONGEST_REASON: Final = 1024

_MESSAGE: Final = "DecisionBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A decision with the name under which its result comes back.

    ``prepare_only``: do everything short of the bind, answer PREPARED, and wait for the gang's verdict.
    """

    decision_id: str
    decision: BindDecision
    prepare_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBatch:
    """Assignments that share epoch (fencing token of the leader) and deadline.

    ``deadline``: seconds after which none of them must be started any more; on the wire Unix seconds, by the
    clock of the scheduler.
    """

    epoch: int
    deadline: float
    assignments: tuple[Assignment, ...]


class ResultStatus(IntEnum):
    """What became of a decision; the values are the wire's."""

    BOUND = pb.Result.STATUS_BOUND
    FAILED = pb.Result.STATUS_FAILED
    PREPARED = pb.Result.STATUS_PREPARED
    REJECTED = pb.Result.STATUS_REJECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A binder's answer to one assignment."""

    decision_id: str
    pod_uid: PodUid
    status: ResultStatus
    reason: str = ""
    #: Whether the node did not give what the decision took of it, though another might.
    node_at_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A decision that a binder could not stop any more when it lost its scheduler."""

    decision_id: str
    pod_uid: PodUid
    node: str
    epoch: int


def encode_batch(batch: DecisionBatch) -> pb.DecisionBatch:
    """The message of a batch. All decisions of a batch are of one node pool (a scheduler has only one)."""
    rows = batch.assignments
    decisions = [row.decision for row in rows]
    nodes = {name: index for index, name in enumerate(dict.fromkeys(d.node for d in decisions))}
    pools = {decision.node_pool for decision in decisions}
    assert len(pools) <= 1, pools
    return pb.DecisionBatch(
        epoch=batch.epoch,
        deadline=batch.deadline,
        rows=len(rows),
        decision_ids=join([row.decision_id for row in rows], field=f"{_MESSAGE}.decision_ids"),
        pod_uids=join([d.pod.uid for d in decisions], field=f"{_MESSAGE}.pod_uids"),
        namespaces=join([d.pod.namespace for d in decisions], field=f"{_MESSAGE}.namespaces"),
        names=join([d.pod.name for d in decisions], field=f"{_MESSAGE}.names"),
        pod_groups=join([d.pod.pod_group for d in decisions], field=f"{_MESSAGE}.pod_groups"),
        node_names=join(list(nodes), field=f"{_MESSAGE}.node_names"),
        node_index=pack((nodes[d.node] for d in decisions), "i"),
        resource_type=pack((d.resource_type for d in decisions), "B"),
        gpu_count=pack((d.gpu_count for d in decisions), "i"),
        gpu_portion=pack((d.gpu_portion for d in decisions), "d"),
        prepare_only=pack((row.prepare_only for row in rows), "B"),
        details=[_detail(index, d) for index, d in enumerate(decisions) if _has_detail(d)],
        node_pool=pools.pop() if pools else "",
    )


def _has_detail(decision: BindDecision) -> bool:
    return bool(
        decision.gpu_groups
        or decision.claim_allocations
        or decision.extended_claim is not None
        or decision.numa_zones
    )


def _detail(row: int, decision: BindDecision) -> pb.DecisionDetail:
    return pb.DecisionDetail(
        row=row,
        gpu_groups=decision.gpu_groups,
        claim_allocations=_json(decision.claim_allocations or None),
        extended_claim=_json(decision.extended_claim),
        numa_zones=_json(decision.numa_zones or None),
        gpu_memory=decision.gpu_memory_mib,
    )


def _json(value: Any) -> bytes:
    return b"" if value is None else msgspec.json.encode(value)


def decode_batch(message: pb.DecisionBatch) -> DecisionBatch:
    """The batch in a message.

    Raises:
        MalformedMessage: a column's length is not the message's row count, or an index is out of range.
    """
    rows = message.rows

    def texts(name: str) -> list[str]:
        return split(getattr(message, name), rows=rows, field=f"{_MESSAGE}.{name}")

    def numbers(name: str, kind: str) -> tuple[Any, ...]:
        return unpack(getattr(message, name), kind, count=rows, field=f"{_MESSAGE}.{name}")

    nodes = message.node_names.split("\n") if rows else []
    details = {detail.row: detail for detail in message.details}
    columns = zip(
        texts("decision_ids"),
        texts("pod_uids"),
        texts("namespaces"),
        texts("names"),
        texts("pod_groups"),
        numbers("node_index", "i"),
        numbers("resource_type", "B"),
        numbers("gpu_count", "i"),
        numbers("gpu_portion", "d"),
        numbers("prepare_only", "B"),
        strict=True,
    )
    try:
        assignments = tuple(
            Assignment(
                decision_id=decision_id,
                prepare_only=bool(prepare),
                decision=BindDecision(
                    pod=PodRef(uid=uid, namespace=namespace, name=name, pod_group=group),
                    node=nodes[_index(node)],
                    resource_type=ResourceType(kind),
                    gpu_count=count,
                    gpu_portion=portion,
                    node_pool=message.node_pool,
                    **_decode_detail(details.get(row)),
                ),
            )
            for row, (decision_id, uid, namespace, name, group, node, kind, count, portion, prepare) in (
                enumerate(columns)
            )
        )
    except (IndexError, ValueError, msgspec.DecodeError) as error:
        raise MalformedMessage(f"{_MESSAGE}: {error}") from error
    return DecisionBatch(
        epoch=message.epoch,
        deadline=message.deadline,
        assignments=assignments,
    )


def _index(value: int) -> int:
    if value < 0:
        raise IndexError(f"node index {value} is negative")
    return value


def _decode_detail(detail: pb.DecisionDetail | None) -> dict[str, Any]:
    if detail is None:
        return {}
    values: dict[str, Any] = {"gpu_groups": tuple(detail.gpu_groups), "gpu_memory_mib": detail.gpu_memory}
    if claims := detail.claim_allocations:
        values["claim_allocations"] = tuple(msgspec.json.decode(claims))
    if extended := detail.extended_claim:
        values["extended_claim"] = msgspec.json.decode(extended)
    if zones := detail.numa_zones:
        values["numa_zones"] = tuple(msgspec.json.decode(zones))
    return values


def encode_results(results: Sequence[Result]) -> pb.Results:
    """The message of several results, at most :data:`MOST_RESULTS`. Long reasons, as of webhooks, are cut."""
    return pb.Results(
        results=[
            pb.Result(
                decision_id=result.decision_id,
                pod_uid=result.pod_uid,
                status=pb.Result.Status.ValueType(result.status),
                reason=result.reason[:_LONGEST_REASON],
                node_at_fault=result.node_at_fault,
            )
            for result in results
        ]
    )


def decode_results(message: pb.Results) -> tuple[Result, ...]:
    """The results in a message.

    Raises:
        MalformedMessage: a result has no status that we know.
    """
    try:
        return tuple(
            Result(
                decision_id=result.decision_id,
                pod_uid=PodUid(result.pod_uid),
                status=ResultStatus(result.status),
                reason=result.reason,
                node_at_fault=result.node_at_fault,
            )
            for result in message.results
        )
    except ValueError as error:
        raise MalformedMessage(f"Results: {error}") from error


def encode_in_flight(items: Sequence[InFlight]) -> list[pb.InFlight]:
    """What a binder could not stop, for its hello."""
    return [
        pb.InFlight(decision_id=item.decision_id, pod_uid=item.pod_uid, node=item.node, epoch=item.epoch)
        for item in items
    ]


def decode_in_flight(messages: Sequence[pb.InFlight]) -> tuple[InFlight, ...]:
    """The reverse of :func:`encode_in_flight`."""
    return tuple(
        InFlight(decision_id=item.decision_id, pod_uid=PodUid(item.pod_uid), node=item.node, epoch=item.epoch)
        for item in messages
    )
