"""What one scheduling cycle decided, as data and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from kai.model.decisions import BindDecision, CycleResult, Outcome, PodGroupOutcome, PodRef, QueueShare
from kai_cli.output import Column, table

_BIND = (Column("BIND"), Column("POD GROUP"), Column("NODE"), Column("GPUS"))
_EVICT = (Column("EVICT"), Column("POD GROUP"), Column("ACTION"), Column("FOR"))
_NOMINATE = (Column("WAITS FOR ROOM"), Column("POD GROUP"), Column("NODE"))
_GROUPS = (Column("POD GROUP"), Column("OUTCOME"), Column("REASON", prose=True))
_QUEUES = (
    Column("QUEUE (GPUS)"),
    Column("PARENT"),
    Column("DESERVED", number=True),
    Column("LIMIT", number=True),
    Column("FAIR SHARE", number=True),
    Column("ALLOCATED", number=True),
    Column("REQUESTED", number=True),
)
_AMOUNTS = (
    "deserved",
    "limit",
    "over_quota_weight",
    "fair_share",
    "allocated",
    "allocated_non_preemptible",
    "requested",
)


def document(result: CycleResult) -> dict[str, Any]:
    """JSON of all that was decided. Only ``timings``, in milliseconds, differ from run to run."""
    return {
        "binds": [_bind(bind) for bind in result.binds],
        "evictions": [
            {
                **_pod(each.pod),
                "action": each.action,
                "for": each.evictor,
                "gangSize": each.gang_size,
                "message": each.message,
            }
            for each in result.evictions
        ],
        "nominations": [{**_pod(each.pod), "node": each.node} for each in result.nominations],
        "podGroups": [_group(outcome) for outcome in result.outcomes],
        "queues": [_queue(share) for share in result.shares],
        "timings": {phase: round(seconds * 1000, 3) for phase, seconds in result.timings.items()},
    }


def tables(result: CycleResult) -> Iterator[RenderableType]:
    """The same for people; what is empty is left out."""
    binds = [[_name(each.pod), each.pod.pod_group, each.node, devices(each)] for each in result.binds]
    evictions = [
        [_name(each.pod), each.pod.pod_group, each.action, each.evictor or "-"] for each in result.evictions
    ]
    nominations = [[_name(each.pod), each.pod.pod_group, each.node] for each in result.nominations]
    groups = [
        [each.pod_group, each.outcome.name.lower(), each.message or "-"]
        for each in result.outcomes
        if each.outcome is not Outcome.SETTLED
    ]
    shares = [_share_row(share) for share in result.shares]
    for columns, rows in (
        (_BIND, binds),
        (_EVICT, evictions),
        (_NOMINATE, nominations),
        (_GROUPS, groups),
        (_QUEUES, shares),
    ):
        if rows:
            found: Table = table(columns, rows)
            yield found


def summary(result: CycleResult) -> str:
    """Counts and times in a line."""
    counts = ", ".join(
        f"{len(rows)} {what}"
        for rows, what in (
            (result.binds, "binds"),
            (result.evictions, "evictions"),
            (result.nominations, "nominations"),
        )
    )
    times = ", ".join(f"{phase} {seconds * 1000:.1f} ms" for phase, seconds in result.timings.items())
    return f"{counts}; {times}"


def devices(bind: BindDecision) -> str:
    """``2``, ``0.5 of <group>``, or ``-`` for none."""
    if bind.gpu_groups:
        return f"{bind.gpu_portion:g} of {', '.join(bind.gpu_groups)}"
    return str(bind.gpu_count) if bind.gpu_count else "-"


def _name(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"


def _pod(pod: PodRef) -> dict[str, Any]:
    return {"pod": _name(pod), "podGroup": pod.pod_group}


def _bind(bind: BindDecision) -> dict[str, Any]:
    return {
        **_pod(bind.pod),
        "node": bind.node,
        "resourceType": bind.resource_type.annotation,
        "gpuCount": bind.gpu_count,
        "gpuPortion": bind.gpu_portion,
        "gpuGroups": list(bind.gpu_groups),
        "claimAllocations": list(bind.claim_allocations),
        "extendedClaim": bind.extended_claim,
        "numaZones": list(bind.numa_zones),
    }


def _group(outcome: PodGroupOutcome) -> dict[str, Any]:
    return {
        "podGroup": outcome.pod_group,
        "outcome": outcome.outcome.name.lower(),
        "message": outcome.message,
        "reasons": [
            {"reason": each.reason, "message": each.message, "details": each.details}
            for each in outcome.explanations
        ],
        "pods": dict(outcome.pod_messages),
        "stale": outcome.staleness,
    }


def _queue(share: QueueShare) -> dict[str, Any]:
    found: dict[str, Any] = {"queue": share.queue, "parent": share.parent, "priority": share.priority}
    for name in _AMOUNTS:
        cpu_millis, memory_bytes, gpus = getattr(share, name)
        first, *rest = name.split("_")
        key = first + "".join(part.capitalize() for part in rest)
        found[key] = {"cpuMillis": cpu_millis, "memoryBytes": memory_bytes, "gpus": gpus}
    return found


def _share_row(share: QueueShare) -> list[str]:
    columns = (share.deserved, share.limit, share.fair_share, share.allocated, share.requested)
    return [share.queue, share.parent or "-", *("-" if gpus < 0 else f"{gpus:g}" for _, _, gpus in columns)]
