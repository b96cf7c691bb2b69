"""Scheduling classes: what filters and scores may depend on, shared by all pods that agree in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.decisions import ResourceType
from kai.model.objects import Container, ObjectMeta, Pod, PodSpec, Toleration
from kai.model.requests import pod_requests, resized
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS, ResourceTable

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_quickly = msgspec.msgpack.Encoder().encode
_LARGE: Final = 1 << 16
_GPU_ANNOTATIONS: Final = (names.GPU_FRACTION, names.GPU_MEMORY, names.MIG_PREFIX)


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
    host_ports: tuple[tuple[str, str, int], ...] = ()
    spread: tuple[dict[str, Any], ...] = ()
    priority_class: str = ""
    priority: int = 0
    #: Claims of volumes by name, as in the pod's namespace; ephemeral ones carry the pod's name.
    volume_claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    #: ``namespace`` and labels, where another part of the constraints speaks of them.
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False, kw_only=True)
class TaskClass:
    """One scheduling class; identity is equality.

    ``items`` are (column, amount) pairs charged to a node: pods 1, whole GPUs in the GPU column, nothing
    there for shared GPUs and for those of resource claims, which are charged once for all their users.
    ``centi_gpus`` is what a queue is charged in hundredths of a GPU, except for GPU memory, which depends on
    a node.
    """

    id: int
    items: tuple[tuple[int, int], ...]
    cpu: int
    memory: int
    kind: GpuKind
    devices: int = 0
    portion_centi: int = 0
    gpu_memory_mib: int = 0
    centi_gpus: int = 0
    dra_gpus: int = 0
    legacy_mig: bool = False
    #: Whether pods of the class have resource claims.
    claims: bool = False
    constraints: Constraints
    signature: bytes
    #: Requests and limits agree in all containers, and whole CPUs; what NUMA placement asks.
    pod: Pod = field(repr=False)
    #: Whether it asks for parts of GPUs.
    shared: bool = field(init=False)
    #: Whether it asks for no kind of GPU.
    cpu_only: bool = field(init=False)
    #: What a queue is charged wherever the node does not matter.
    _charge: tuple[int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._charge = (self.cpu, self.memory, self.centi_gpus)
        self.shared = self.kind is GpuKind.FRACTION or self.kind is GpuKind.MEMORY
        self.cpu_only = self.kind is GpuKind.NONE and not self.dra_gpus

    def device_memory(self, node_gpu_memory: int) -> int:
        """Memory on each device, in MiB."""
        if self.kind is GpuKind.MEMORY:
            return self.gpu_memory_mib
        return self.portion_centi * node_gpu_memory // 100

    def charge(self, gpu_memory: int) -> tuple[int, int, int]:
        """CPU, memory and hundredths of GPUs charged to a queue, where a GPU has ``gpu_memory`` MiB."""
        if self.kind is not GpuKind.MEMORY:
            return self._charge
        return (self.cpu, self.memory, self.quota_centi(gpu_memory))

    def received(self, gpu_memory: int) -> tuple[ResourceType, float]:
        """The kind of devices that a pod gets where a GPU has ``gpu_memory`` MiB, and which part of each."""
        if self.shared:
            return ResourceType.FRACTION, self.quota_centi(gpu_memory) / self.devices / 100
        return ResourceType.MIG_INSTANCE if self.kind is GpuKind.MIG else ResourceType.REGULAR, 1.0

    def quota_centi(self, gpu_memory: int) -> int:
        """Hundredths of GPUs charged to a queue, where a GPU has ``gpu_memory`` MiB."""
        if self.kind is not GpuKind.MEMORY:
            return self.centi_gpus
        return self.devices * -(-self.gpu_memory_mib * 100 // max(gpu_memory, 1)) + self.dra_gpus * 100


def _amounts_of(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)


class ClassTable:
    """All scheduling classes; equal pods get the same one."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._quick: dict[bytes, TaskClass] = {}
        self._exact: dict[bytes, TaskClass] = {}
        self.classes: list[TaskClass] = []

    def of(self, pod: Pod, *, dra_gpus: int = 0) -> TaskClass:
        """The class of a pod; ``dra_gpus`` is what its resource claims count as."""
        quick = self._quick_key(pod, dra_gpus)
        known = self._quick.get(quick)
        if known is None:
            if len(self._quick) > _LARGE:
                self._quick.clear()
            known = self._quick[quick] = self._derive(pod, dra_gpus)
        return known

    def bare(self, cls: TaskClass) -> TaskClass:
        """A class that holds what this one does, and of which nothing else is known."""
        pod = cls.pod
        return self.of(
            Pod(
                metadata=ObjectMeta(annotations=dict(gpu_annotations(pod))),
                spec=PodSpec(
                    containers=[_amounts_of(each) for each in pod.spec.containers],
                    init_containers=[_amounts_of(each) for each in pod.spec.init_containers or ()],
                    overhead=pod.spec.overhead,
                ),
            ),
            dra_gpus=cls.dra_gpus,
        )

    def _quick_key(self, pod: Pod, dra_gpus: int) -> bytes:
        """All inputs of a class, cheaply; pods that differ elsewhere only may share it."""
        spec = pod.spec
        affinity = spec.affinity
        about_pods = spec.topology_spread_constraints or (
            affinity is not None and ("podAffinity" in affinity or "podAntiAffinity" in affinity)
        )
        return _encode_quickly(
            (
                [_container_key(c, pod) for c in spec.containers],
                [_container_key(c, pod) for c in spec.init_containers or ()],
                spec.overhead,
                spec.resources,
                resized(pod) if spec.node_name else None,
                spec.node_selector,
                affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                spec.priority_class_name,
                spec.priority,
                spec.host_network,
                spec.volumes and _volumes(pod),
                gpu_annotations(pod),
                dra_gpus,
                (pod.metadata.namespace, pod.metadata.labels) if about_pods else None,
                bool(spec.resource_claims),
                pod.status.qos_class if spec.containers and spec.containers[0].resources else "",
            )
        )

    def _derive(self, pod: Pod, dra_gpus: int) -> TaskClass:
        amounts = pod_requests(pod, self._resources.vector)
        amounts[PODS] = 1
        gpu = _gpu_need(pod, amounts, dra_gpus, self._resources)
        constraints = _constraints(pod)
        signature = _encode(
            (
                constraints.node_selector,
                constraints.node_affinity,
                constraints.pod_affinity,
                constraints.pod_anti_affinity,
                constraints.tolerations,
                constraints.priority_class,
                constraints.priority,
                constraints.spread,
                constraints.host_ports,
                constraints.volume_claims,
            )
        )
        items = tuple(sorted((column, amount) for column, amount in amounts.items() if amount > 0))
        exact = _encode(
            (
                items,
                {key: int(value) for key, value in gpu.items()},
                signature,
                constraints.config_maps,
                constraints.namespace,
                constraints.labels,
                _numa_inputs(pod),
                bool(pod.spec.resource_claims),
            )
        )
        known = self._exact.get(exact)
        if known is None:
            known = TaskClass(
                id=len(self.classes),
                items=items,
                cpu=amounts.get(CPU, 0),
                memory=amounts.get(MEMORY, 0),
                constraints=constraints,
                signature=signature,
                claims=bool(pod.spec.resource_claims),
                pod=pod,
                **gpu,
            )
            self._exact[exact] = known
            self.classes.append(known)
        return known


def gpu_annotations(pod: Pod) -> list[tuple[str, str]]:
    """The annotations that ask for GPUs."""
    annotations = pod.metadata.annotations
    if not annotations:
        return []
    found = [item for item in annotations.items() if item[0].startswith(_GPU_ANNOTATIONS)]
    return sorted(found) if found else found


def _gpu_need(pod: Pod, amounts: dict[int, int], dra_gpus: int, resources: ResourceTable) -> dict[str, Any]:
    """The GPU part of a class; brings ``amounts`` in line with it."""
    annotations = dict(gpu_annotations(pod))
    whole = amounts.get(GPU, 0)
    portion = _portion(annotations.get(names.GPU_FRACTION))
    memory = _positive(annotations.get(names.GPU_MEMORY))
    legacy = {
        key: number
        for key, text in annotations.items()
        if key.startswith(names.MIG_PREFIX) and (number := _positive(text))
    }
    need: dict[str, Any] = {
        "kind": GpuKind.WHOLE if whole else GpuKind.NONE,
        "devices": whole,
        "centi_gpus": whole * 100,
    }
    if portion or memory:
        devices = _positive(annotations.get(names.GPU_FRACTION_NUM_DEVICES)) or 1
        amounts.pop(GPU, None)
        need = {
            "devices": devices,
            "portion_centi": portion,
            "gpu_memory_mib": 0 if portion else memory,
            "kind": GpuKind.FRACTION if portion else GpuKind.MEMORY,
            "centi_gpus": devices * portion,
        }
    if legacy:
        amounts.pop(GPU, None)
        for name, number in legacy.items():
            amounts[resources.column(name)] = number
        need = {"devices": 0, "centi_gpus": 0, "kind": GpuKind.MIG, "legacy_mig": True}
    mig = sum(gpus * amounts.get(column, 0) for column, gpus in resources.mig)
    if mig:
        need["kind"] = GpuKind.MIG
        need["centi_gpus"] += mig * 100
    if dra_gpus:
        need["dra_gpus"] = dra_gpus
        need["centi_gpus"] += dra_gpus * 100
    return need


def _portion(text: str | None) -> int:
    """Hundredths of a GPU; 0 for none or one that is not within (0, 1]."""
    if not text:
        return 0
    try:
        portion = float(text)
    except ValueError:
        return 0
    return round(portion * 100) if 0 < portion <= 1 else 0


def _positive(text: str | None) -> int:
    if not text:
        return 0
    try:
        return max(int(text), 0)
    except ValueError:
        return 0


def _constraints(pod: Pod) -> Constraints:
    spec = pod.spec
    affinity = spec.affinity or {}
    spread = tuple(spec.topology_spread_constraints or ())
    about_pods = spread or affinity.get("podAffinity") or affinity.get("podAntiAffinity")
    claims, config_maps = _volumes(pod)
    for container in (*spec.containers, *(spec.init_containers or ())):
        config_maps.extend(_config_maps_of(container, pod))
    named = claims or config_maps or about_pods
    return Constraints(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=affinity.get("nodeAffinity"),
        pod_affinity=affinity.get("podAffinity"),
        pod_anti_affinity=affinity.get("podAntiAffinity"),
        tolerations=tuple(spec.tolerations or ()),
        host_ports=_host_ports(pod),
        spread=spread,
        priority_class=spec.priority_class_name,
        priority=spec.priority or 0,
        volume_claims=tuple(sorted(set(claims))),
        config_maps=tuple(sorted(set(config_maps))),
        namespace=pod.metadata.namespace if named else "",
        labels=tuple(sorted(pod.labels.items())) if about_pods else (),
    )


def _container_key(container: Container, pod: Pod) -> tuple[Any, ...]:
    config_maps = _config_maps_of(container, pod) if container.env or container.env_from else ()
    return (container.resources, container.ports, container.restart_policy, config_maps)


def _volumes(pod: Pod) -> tuple[list[str], list[str]]:
    """Names of claims and of required config maps that volumes refer to."""
    claims: list[str] = []
    config_maps: list[str] = []
    for volume in pod.spec.volumes or ():
        if claim := volume.get("persistentVolumeClaim"):
            claims.append(claim.get("claimName", ""))
        elif "ephemeral" in volume:
            claims.append(f"{pod.metadata.name}-{volume.get('name', '')}")
        elif (source := volume.get("configMap")) and not source.get("optional"):
            name = source.get("name", "")
            if name and not _made_by_binder(name, pod):
                config_maps.append(name)
    return claims, config_maps


def _made_by_binder(config_map: str, pod: Pod) -> bool:
    """Whether the config map tells the pod its part of a GPU: then it comes with the binding."""
    prefix = pod.annotations.get(names.SHARED_GPU_CONFIGMAP, "")
    return bool(prefix) and config_map.startswith(prefix)


def _config_maps_of(container: Container, pod: Pod) -> list[str]:
    """Those that its environment cannot do without."""
    found: list[str] = []
    for variable in container.env or ():
        reference = (variable.get("valueFrom") or {}).get("configMapKeyRef")
        if reference and not reference.get("optional"):
            found.append(reference.get("name", ""))
    for source in container.env_from or ():
        reference = source.get("configMapRef")
        if reference and not reference.get("optional"):
            found.append(reference.get("name", ""))
    return [name for name in found if not _made_by_binder(name, pod)]


def _host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    ports: set[tuple[str, str, int]] = set()
    for container in pod.spec.containers:
        for port in container.ports or ():
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                ports.add((port.host_ip or "0.0.0.0", port.protocol or "TCP", number))
    return tuple(sorted(ports))


def _numa_inputs(pod: Pod) -> list[Any]:
    def side(containers: Iterable[Container]) -> list[Any]:
        return [
            (c.resources and (c.resources.requests, c.resources.limits), c.restart_policy) for c in containers
        ]

    return [side(pod.spec.containers), side(pod.spec.init_containers or ()), pod.status.qos_class]
