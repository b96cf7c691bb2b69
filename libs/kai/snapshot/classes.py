"""Scheduling classes: what filters and scores may depend on, shared by all pods that agree in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kai.model.decisions import ResourceType
from kai.model.objects import Pod, Toleration
from kai.model.rules.gpu_shares import centi_of_memory
from kai.model.rules.host_ports import NO_PORTS, HostPorts, Port
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.resources import PODS

#: Half a million pods that ask for no more of anything stay within half of a sum of 64 bits.
_VAST: Final = 1 << 43


class GpuKind(IntEnum):
    """How a pod asks for GPUs."""

    NONE = 0
    WHOLE = 1
    FRACTION = 2
    MEMORY = 3
    MIG = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Everything but amounts that decides where a pod may run. JSON parts are as in the pod."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: dict[str, Any] | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[Port, ...] = ()
    spread: tuple[dict[str, Any], ...] = ()
    priority_class: str = ""
    priority: int = 0
    #: Whether pods of lower priority are safe from it.
    never_preempts: bool = False
    #: Claims of volumes by name, as in the pod's namespace; ephemeral ones carry the pod's name.
    volume_claims: tuple[str, ...] = ()
    #: Those of them that must have been made for the pod, as its ephemeral volumes.
    own_claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    #: ``namespace`` and labels, where another part of the constraints speaks of them.
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class ClaimedGpus(NamedTuple):
    """What the resource claims of a pod are for."""

    #: As how many GPUs they count.
    counted: int = 0
    #: Whether any is for GPUs, or may be, be they counted or not.
    possible: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class TaskClass:
    """One scheduling class; identity is equality.

    ``items`` are (column, amount) pairs charged to a node: pods 1, whole GPUs in the GPU column, nothing
    there for shared GPUs and for those of resource claims, which are charged once for all their users.
    ``gpu_centi`` is what a queue is charged in hundredths of a GPU, except for GPU memory, which depends on
    a node.
    """

    id: int
    items: tuple[tuple[int, int], ...]
    cpu_millis: int
    memory_bytes: int
    kind: GpuKind
    devices: int = 0
    portion_centi: int = 0
    gpu_memory_mib: int = 0
    gpu_centi: int = 0
    dra_gpus: int = 0
    #: Whether its claims are for GPUs, or may be, be they counted or not.
    claims_gpus: bool = False
    #: Names of the resources by which it asks for GPUs as a whole, or has them reserved for parts of them.
    gpu_names: frozenset[str] = frozenset()
    legacy_mig: bool = False
    #: Whether pods of the class have resource claims.
    claims: bool = False
    constraints: Constraints
    signature: bytes
    #: What no node offers, by name, in the units of columns; in ``items`` it is one of ``NOBODY``.
    unoffered: tuple[tuple[str, int], ...] = ()
    #: A pod of the class, without all that no class depends on.
    pod: Pod = field(repr=False)
    #: Whether it asks for parts of GPUs.
    shared: bool = field(init=False)
    #: Whether it is charged for no kind of GPU.
    cpu_only: bool = field(init=False)
    #: Whether it belongs where GPUs are.
    for_gpus: bool = field(init=False)
    #: Whether it wants to be near or away from other pods.
    affine: bool = field(init=False)
    #: ``constraints.host_ports``, to be held against those of other classes.
    ports: HostPorts = field(init=False, repr=False)
    #: Whether it asks for so much of anything that what its pods ask for together might not fit into 64 bits.
    vast: bool = field(init=False)
    #: All that it asks for: hundredths of GPUs, MiB of GPU memory, millicores, bytes, and the rest together.
    demand: tuple[int, int, int, int, int] = field(init=False, repr=False)
    #: What a queue is charged wherever the node does not matter.
    _charge: Amounts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._charge = Amounts(self.cpu_millis, self.memory_bytes, self.gpu_centi)
        self.shared = self.kind is GpuKind.FRACTION or self.kind is GpuKind.MEMORY
        self.affine = bool(self.constraints.pod_affinity or self.constraints.pod_anti_affinity)
        ports = self.constraints.host_ports
        self.ports = HostPorts(ports) if ports else NO_PORTS
        self.cpu_only = self.kind is GpuKind.NONE and not self.dra_gpus
        self.for_gpus = self.claims_gpus or not self.cpu_only
        self.vast = any(amount > _VAST for _, amount in self.items)
        rest = sum(amount for column, amount in self.items if column > PODS)
        gpu_mib = self.gpu_memory_mib * self.devices
        self.demand = (self.gpu_centi, gpu_mib, self.cpu_millis, self.memory_bytes, rest)

    @property
    def claimed(self) -> ClaimedGpus:
        """What its pods' resource claims are for."""
        return ClaimedGpus(self.dra_gpus, self.claims_gpus)

    def part_mib(self, device_mib: int) -> int:
        """What a pod takes of each device that it shares, in MiB, where a GPU has ``device_mib``.

        Rounded down where it asks for a part; 0 where it shares no devices.
        """
        if self.kind is GpuKind.MEMORY:
            return self.gpu_memory_mib
        return self.portion_centi * device_mib // GPU_CENTI

    def charge(self, device_mib: int) -> Amounts:
        """What a queue is charged for a pod, where a GPU has ``device_mib``.

        Only where it asks for an amount of GPU memory does that depend on the device.
        """
        if self.kind is not GpuKind.MEMORY:
            return self._charge
        return Amounts(self.cpu_millis, self.memory_bytes, self.quota_centi(device_mib))

    def received(self, device_mib: int) -> tuple[ResourceType, float]:
        """The kind of devices that a pod gets where a GPU has ``device_mib``, and which part of each."""
        if self.shared:
            parts = self.quota_centi(device_mib) - self.dra_gpus * GPU_CENTI
            return ResourceType.FRACTION, parts / self.devices / GPU_CENTI
        return ResourceType.MIG_INSTANCE if self.kind is GpuKind.MIG else ResourceType.REGULAR, 1.0

    def quota_centi(self, device_mib: int) -> int:
        """Hundredths of GPUs charged to a queue, where a GPU has ``device_mib``.

        A part of a device is rounded up; devices of resource claims count as whole ones.
        """
        if self.kind is not GpuKind.MEMORY:
            return self.gpu_centi
        part = centi_of_memory(self.gpu_memory_mib, device_mib)
        return self.devices * part + self.dra_gpus * GPU_CENTI
