"""Pods of ours: what they ask for, where they are, and why they are nowhere yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kai.model import names
from kai.model.objects import Condition, Pod
from kai.snapshot.times import seconds
from kai_cli.output import Column
from kai_cli.views import amounts
from kai_cli.views.claims import NOTHING_CLAIMED, ClaimedGpus
from kai_cli.views.nodes import asked_gpus

COLUMNS: Final = (
    Column("NAMESPACE"), Column("NAME"), Column("STATUS"), Column("GPUS", True), Column("NODE"),
    Column("AGE", True), Column("REASON"), Column("POD GROUP", wide=True),
    Column("MESSAGE", wide=True, prose=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """One pod. Times are Unix seconds."""

    namespace: str
    name: str
    pod_group: str
    status: str
    #: Whole ones, also of resource claims, and parts; parts by memory are not counted.
    gpus: float
    node: str
    created: float
    #: Why it has no place, in a word and in sentences; empty where it has one, or nobody has said so.
    reason: str
    message: str
    #: When this was seen.
    at: float

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        found = asdict(self)
        del found["at"]
        return found

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        return (
            self.namespace,
            self.name,
            self.status,
            amounts.number(self.gpus),
            self.node or "-",
            amounts.lasting(max(0.0, self.at - self.created)),
            self.reason or "-",
            self.pod_group or "-",
            self.message.partition("\n")[0],
        )


def table_of(pods: Iterable[Pod], *, at: float, claimed: ClaimedGpus = NOTHING_CLAIMED) -> list[PodRow]:
    """One row for each pod that is in a pod group or for our scheduler, by namespace and name."""
    ours = [
        pod
        for pod in pods
        if names.POD_GROUP_ANNOTATION in pod.annotations or pod.spec.scheduler_name == names.SCHEDULER_NAME
    ]
    return [_row(pod, claimed, at=at) for pod in sorted(ours, key=lambda pod: pod.key)]


def _row(pod: Pod, claimed: ClaimedGpus, *, at: float) -> PodRow:
    why = obstacle(pod)
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        pod_group=pod.annotations.get(names.POD_GROUP_ANNOTATION, ""),
        status=_status(pod),
        gpus=asked_gpus(pod) + claimed.gpus([pod]),
        node=pod.spec.node_name,
        created=seconds(pod.metadata.creation_timestamp),
        reason=(why.reason or "") if why is not None else "",
        message=(why.message or "") if why is not None else "",
        at=at,
    )


def waits(pod: Pod) -> bool:
    """Whether a pod waits for its place. One with a node is ``Pending``, too, until its images are there."""
    return (
        (pod.status.phase or "Pending") == "Pending"
        and not pod.spec.node_name
        and not pod.metadata.deletion_timestamp
    )


def obstacle(pod: Pod) -> Condition | None:
    """Why a pod has no node; a bind that failed says more than that there was no place before."""
    if pod.spec.node_name:
        return None
    failed = {each.type: each for each in pod.status.conditions or () if each.status == "False"}
    return failed.get(names.POD_BOUND) or failed.get("PodScheduled")


def _status(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    if pod.status.phase == "Pending" and pod.spec.scheduling_gates:
        return "Gated"
    return pod.status.phase or "Pending"
