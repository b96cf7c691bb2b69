"""Nodes with their GPUs and who sits on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kai.model import names, resource_lists
from kai.model.faults import OutOfBounds
from kai.model.objects import Node, Pod, Taint
from kai.model.requests import pod_requests
from kai.model.rules.gpu_groups import gpu_groups
from kai.model.rules.gpu_shares import asked_share
from kai.model.rules.gpus import gpus_of_quota, shared_memory_mib
from kai.model.rules.phases import has_ended
from kai.model.rules.reservations import holds_device
from kai_cli.output import Column
from kai_cli.views import amounts
from kai_cli.views.claims import NOTHING_CLAIMED, ClaimedGpus

COLUMNS = (
    Column("NODE"), Column("STATUS"), Column("GPUS", True), Column("USED", True), Column("FREE", True),
    Column("DEVICES"), Column("TAINTS", prose=True), Column("WHO", prose=True),
)  # fmt: skip
_READY: Final = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDevice:
    """A GPU that several pods share."""

    group: str
    portion: float
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDevices:
    """Whole GPUs of one pod."""

    pod: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDevices:
    """Whole GPUs of a resource claim, which all pods that use it share."""

    claim: str
    count: int
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. ``used`` counts a shared device by the portion that is given away.

    ``whole_free`` are the devices of which nothing is given away; ``taints`` are as ``kubectl taint`` says
    them.
    """

    name: str
    status: str
    gpus: int
    used: float
    free: float
    whole_free: int
    taints: tuple[str, ...]
    whole: tuple[WholeDevices, ...]
    shared: tuple[SharedDevice, ...]
    claimed: tuple[ClaimedDevices, ...]

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @property
    def open(self) -> bool:
        """Whether pods are sent here."""
        return self.status == _READY

    @property
    def placeable(self) -> int:
        """Devices that a pod could be given whole."""
        return self.whole_free if self.open else 0

    def cells(self) -> tuple[str, ...]:
        """As a row of the table; devices are drawn as full, shared and free."""
        whole = _count(self.whole) + _count(self.claimed)
        drawn = "●" * whole + "◐" * len(self.shared) + "○" * self.whole_free
        who = [f"{one.pod}={one.count}" for one in self.whole]
        who += [
            f"[{device.group[:8]} {amounts.number(device.portion)}: {', '.join(device.pods)}]"
            for device in self.shared
        ]
        who += [f"[{devices.claim} {devices.count}: {', '.join(devices.pods)}]" for devices in self.claimed]
        return (
            self.name, self.status, str(self.gpus), amounts.number(self.used), amounts.number(self.free),
            drawn, " ".join(self.taints), "  ".join(who),
        )  # fmt: skip


def table_of(
    nodes: Iterable[Node], pods: Iterable[Pod], claimed: ClaimedGpus = NOTHING_CLAIMED
) -> list[NodeRow]:
    """One row per node, by name."""
    by_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod.status.phase):
            by_node[pod.spec.node_name].append(pod)
    return [
        _row(node, by_node[node.metadata.name], claimed)
        for node in sorted(nodes, key=lambda node: node.metadata.name)
    ]


def _row(node: Node, pods: list[Pod], claimed: ClaimedGpus) -> NodeRow:
    allocatable = node.status.allocatable or {}
    total = int(gpus_of_quota(resource_lists.amounts(allocatable)))
    total += claimed.of_nodes.get(node.metadata.name, 0)
    memory = shared_memory_mib(node.labels)
    whole: list[WholeDevices] = []
    portions: defaultdict[str, float] = defaultdict(float)
    sharers: defaultdict[str, list[str]] = defaultdict(list)
    users: defaultdict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.key):
        if holds_device(pod.metadata, namespace=""):  # where it is, only the installation knows
            group = pod.labels.get(names.GPU_GROUP_LABEL)
            if group:
                portions[group] += 0.0
            continue
        for claim in claimed.claims(pod):
            users[claim].append(pod.key)
        groups = gpu_groups(pod.labels)
        if groups:
            for group in groups:
                portions[group] += _portion(pod, memory)
                sharers[group].append(pod.key)
        elif count := whole_gpus(pod):
            whole.append(WholeDevices(pod=pod.key, count=count))
    shared = tuple(
        SharedDevice(group=group, portion=round(portions[group], 4), pods=tuple(sharers[group]))
        for group in sorted(portions)
    )
    claims = tuple(
        ClaimedDevices(claim=claim, count=claimed.of_claims[claim], pods=tuple(users[claim]))
        for claim in sorted(users)
    )
    taken = _count(whole) + _count(claims)
    used = taken + sum(device.portion for device in shared)
    return NodeRow(
        name=node.metadata.name,
        status=_status(node),
        gpus=total,
        used=round(used, 4),
        free=round(total - used, 4),
        whole_free=max(0, total - taken - len(shared)),
        taints=tuple(_taint(taint) for taint in node.spec.taints or ()),
        whole=tuple(whole),
        shared=shared,
        claimed=claims,
    )


def whole_gpus(pod: Pod) -> int:
    """Whole GPUs that a pod asks for, MIG devices counted as queues are charged for them."""
    return int(gpus_of_quota(pod_requests(pod, resource_lists.amounts)))


def asked_gpus(pod: Pod) -> float:
    """GPUs that a pod requests, whole ones and parts; parts by memory count for nothing without a node."""
    try:
        share = asked_share(pod.annotations)
    except OutOfBounds:
        return 0.0
    return whole_gpus(pod) if share is None else float(share.gpus(None) or 0)


def _count(devices: Iterable[WholeDevices | ClaimedDevices]) -> int:
    return sum(each.count for each in devices)


def _portion(pod: Pod, device_mib: int | None) -> float:
    try:
        share = asked_share(pod.annotations)
    except OutOfBounds:
        return 0.0
    return float(share.of_device(device_mib) or 0) if share is not None else 0.0


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _status(node: Node) -> str:
    ready = next((c.status for c in node.status.conditions or () if c.type == "Ready"), "Unknown")
    status = _READY if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if node.spec.unschedulable else status
