"""Scheduling classes: what filters and scores may depend on, shared by all pods that agree in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from kai.model import limits, names
from kai.model.claims import Grant
from kai.model.decisions import ResourceType
from kai.model.objects import Container, ObjectMeta, Pod, PodSpec, Toleration
from kai.model.requests import pod_requests, resized
from kai.model.rules.gpu_shares import Share, asked_share
from kai.model.rules.gpus import is_gpu, is_mig, mig_gpus
from kai.model.rules.volumes import claim_name
from kai.snapshot import bounds
from kai.snapshot.amounts import GPU_CENTI, Amounts
from kai.snapshot.essence import essence
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS, ResourceTable

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_quickly = msgspec.msgpack.Encoder().encode
#: So many classes may wait for a pod that is like those that they had.
_SPARE: Final = 256
_VAST: Final = 1 << 43
#: Users decide how long the inputs of a class are: of longer ones a digest is kept.
_SHORT: Final = 1024
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
    #: Whether pods of lower priority are safe from it.
    never_preempts: bool = False
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
    #: What no node offers, by name, in the units of columns; in ``items`` it is one of ``NOBODY``.
    unoffered: tuple[tuple[str, int], ...] = ()
    #: A pod of the class, without all that no class depends on.
    pod: Pod = field(repr=False)
    #: Whether it asks for parts of GPUs.
    shared: bool = field(init=False)
    #: Whether it asks for no kind of GPU.
    cpu_only: bool = field(init=False)
    #: Whether it wants to be near or away from other pods.
    affine: bool = field(init=False)
    #: Whether it asks for so much of anything that a few hundred of its pods would not fit into 64 bits.
    vast: bool = field(init=False)
    #: What a queue is charged wherever the node does not matter.
    _charge: Amounts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._charge = Amounts(self.cpu, self.memory, self.centi_gpus)
        self.shared = self.kind is GpuKind.FRACTION or self.kind is GpuKind.MEMORY
        self.affine = bool(self.constraints.pod_affinity or self.constraints.pod_anti_affinity)
        self.cpu_only = self.kind is GpuKind.NONE and not self.dra_gpus
        self.vast = any(amount > _VAST for _, amount in self.items)

    def device_memory(self, device_mib: int) -> int:
        """Memory on each device, in MiB.

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
        return Amounts(self.cpu, self.memory, self.quota_centi(device_mib))

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
            return self.centi_gpus
        part = -(-self.gpu_memory_mib * GPU_CENTI // max(device_mib, 1))
        return self.devices * part + self.dra_gpus * GPU_CENTI


def _amounts_of(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)


class ClassTable:
    """All scheduling classes; equal pods get the same one."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._quick: dict[bytes, TaskClass] = {}
        self._exact: dict[bytes, TaskClass] = {}
        self._made = 0
        #: More classes than that are looked through for those that nobody uses.
        self._enough = _SPARE

    def __len__(self) -> int:
        return len(self._exact)

    def __iter__(self) -> Iterator[TaskClass]:
        """The classes of all pods known, and of some that are gone."""
        return iter(self._exact.values())

    @property
    def made(self) -> int:
        """How many there ever were; while it stays the same none was added."""
        return self._made

    def of(self, pod: Pod, *, dra_gpus: int = 0) -> TaskClass:
        """The class of a pod; ``dra_gpus`` is what its resource claims count as.

        Raises:
            OutOfBounds: the pod asks for what nobody can take in.
        """
        try:
            inputs = self._quick_key(pod, dra_gpus)
        except (OverflowError, TypeError, ValueError, AttributeError):
            bounds.check_scheduling(pod)  # which tells what it is that cannot be written down
            raise
        quick = inputs if len(inputs) <= _SHORT else blake2b(inputs, digest_size=16).digest()
        known = self._quick.get(quick)
        if known is None:
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

    def granted(self, cls: TaskClass, grant: Grant) -> TaskClass:
        """The class of the same pods where they hold this of shared devices, whatever they ask for."""
        held = (cls.devices, cls.portion_centi, cls.gpu_memory_mib)
        if cls.shared and held == (grant.devices, grant.portion_centi, grant.memory_mib):
            return cls
        meta = cls.pod.metadata
        kept = {
            key: text for key, text in cls.pod.annotations.items() if not key.startswith(_GPU_ANNOTATIONS)
        }
        meta = msgspec.structs.replace(meta, annotations=kept | grant.annotations)
        return self._derive(msgspec.structs.replace(cls.pod, metadata=meta), cls.dra_gpus)

    def again(self, cls: TaskClass) -> TaskClass:
        """The class of the same pods now that nodes offer other resources."""
        return self._derive(cls.pod, cls.dra_gpus)

    def offered_now(self) -> None:
        """Nodes offer a resource that none did: what was derived of those who ask for it holds no longer."""
        self._keep(lambda cls: not cls.unoffered)

    @property
    def crowded(self) -> bool:
        """Whether it is time to say who uses classes, by :meth:`keep`."""
        return len(self._exact) > self._enough or len(self._quick) > 4 * self._enough

    def keep(self, used: set[TaskClass]) -> None:
        """Forget the classes that nobody uses."""
        self._keep(used.__contains__)
        self._enough = _SPARE + 2 * len(self._exact)

    def _keep(self, wanted: Callable[[TaskClass], bool]) -> None:
        self._exact = {key: cls for key, cls in self._exact.items() if wanted(cls)}
        # Pods that differ where no class looks have different inputs; a few of these are enough.
        quick = [(key, cls) for key, cls in self._quick.items() if wanted(cls)]
        self._quick = dict(quick[-4 * (_SPARE + len(self._exact)) :])

    def _quick_key(self, pod: Pod, dra_gpus: int) -> bytes:
        """All inputs of a class, cheaply; pods that differ elsewhere only may share it."""
        spec = pod.spec
        affinity = spec.affinity
        about_pods = spec.topology_spread_constraints or (
            affinity is not None and ("podAffinity" in affinity or "podAntiAffinity" in affinity)
        )
        return _encode_quickly(
            (
                [
                    _container_key(each, pod)
                    if each.env or each.env_from
                    else (each.resources, each.ports, each.restart_policy)
                    for each in spec.containers
                ],
                [_container_key(each, pod) for each in spec.init_containers] if spec.init_containers else (),
                spec.overhead,
                spec.resources,
                resized(pod) if spec.node_name else None,
                spec.node_selector,
                affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                spec.priority_class_name,
                spec.priority,
                spec.preemption_policy,
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
        bounds.check_scheduling(pod)
        asked = pod_requests(pod, self._resources.wanted)
        need = _annotated(pod)
        if any(
            amount and (is_gpu(name) or name.startswith(names.MIG_PREFIX)) for name, amount in asked.items()
        ):
            need = _NOT_ANNOTATED  # what the specification asks for is the pod's, and nobody can change it
        if need.mig:
            asked |= need.mig
        limits.RESOURCES.check_count(asked)
        amounts, unoffered = self._resources.split(asked)
        amounts[PODS] = 1
        gpu = _gpu_need(need, amounts, dra_gpus, self._mig_gpus(amounts, unoffered))
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
                constraints.never_preempts,
                constraints.spread,
                constraints.host_ports,
                constraints.volume_claims,
            )
        )
        items = tuple(sorted((column, amount) for column, amount in amounts.items() if amount > 0))
        lacking = tuple(sorted(unoffered.items()))
        exact = _encode(
            (
                items,
                lacking,
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
                id=self._made,
                items=items,
                unoffered=lacking,
                cpu=amounts.get(CPU, 0),
                memory=amounts.get(MEMORY, 0),
                constraints=constraints,
                signature=signature,
                claims=bool(pod.spec.resource_claims),
                pod=essence(pod),
                **gpu,
            )
            self._exact[exact] = known
            self._made += 1
        return known

    def _mig_gpus(self, amounts: Mapping[int, int], unoffered: Mapping[str, int]) -> int:
        """GPUs of quota that MIG devices cost, whether any node offers them or not."""
        offered = sum(gpus * amounts.get(column, 0) for column, gpus in self._resources.mig)
        return offered + sum(mig_gpus(name) * amount for name, amount in unoffered.items())


def gpu_annotations(pod: Pod) -> Sequence[tuple[str, str]]:
    """The annotations that ask for GPUs."""
    annotations = pod.metadata.annotations
    if not annotations:
        return ()
    keys = "".join(annotations)
    if names.GPU_FRACTION not in keys and names.GPU_MEMORY not in keys and names.MIG_PREFIX not in keys:
        return ()  # nearly all pods there are
    found = [item for item in annotations.items() if item[0].startswith(_GPU_ANNOTATIONS)]
    return sorted(found) if found else found


class _Annotated(NamedTuple):
    """The GPUs that a pod asks for by annotations: hundredths or MiB of each device, and MIG devices."""

    portion_centi: int = 0
    memory_mib: int = 0
    devices: int = 1
    mig: Mapping[str, int] = MappingProxyType({})


def _annotated(pod: Pod) -> _Annotated:
    """Raises OutOfBounds for a request that cannot be read: the pod would run without what it asks for."""
    annotations = dict(gpu_annotations(pod))
    if not annotations:
        return _NOT_ANNOTATED
    share = asked_share(annotations) or _NO_SHARE
    return _Annotated(
        portion_centi=share.portion_centi,
        memory_mib=share.memory_mib,
        devices=share.devices,
        mig={
            name: number
            for name, text in annotations.items()
            if is_mig(name) and (number := limits.MIG_DEVICES.integer(text, f"metadata.annotations[{name}]"))
        },
    )


_NOT_ANNOTATED: Final = _Annotated()
_NO_SHARE: Final = Share(devices=1)


def _gpu_need(annotated: _Annotated, amounts: dict[int, int], dra_gpus: int, mig: int) -> dict[str, Any]:
    """The GPU part of a class; brings ``amounts`` in line with it."""
    whole = amounts.get(GPU, 0)
    need: dict[str, Any] = {
        "kind": GpuKind.WHOLE if whole else GpuKind.NONE,
        "devices": whole,
        "centi_gpus": whole * GPU_CENTI,
    }
    if annotated.portion_centi or annotated.memory_mib:
        need = {
            "devices": annotated.devices,
            "portion_centi": annotated.portion_centi,
            "gpu_memory_mib": 0 if annotated.portion_centi else annotated.memory_mib,
            "kind": GpuKind.FRACTION if annotated.portion_centi else GpuKind.MEMORY,
            "centi_gpus": annotated.devices * annotated.portion_centi,
        }
    if annotated.mig:
        need = {"devices": 0, "centi_gpus": 0, "kind": GpuKind.MIG, "legacy_mig": True}
    if mig:
        need["kind"] = GpuKind.MIG
        need["centi_gpus"] += mig * GPU_CENTI
    if dra_gpus:
        need["dra_gpus"] = dra_gpus
        need["centi_gpus"] += dra_gpus * GPU_CENTI
    return need


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
        never_preempts=spec.preemption_policy == "Never",
        volume_claims=tuple(sorted(set(claims))),
        config_maps=tuple(sorted(set(config_maps))),
        namespace=pod.metadata.namespace if named else "",
        labels=tuple(sorted(pod.labels.items())) if about_pods else (),
    )


def _container_key(container: Container, pod: Pod) -> tuple[Any, ...]:
    """What a class depends on; without an environment no config maps are needed."""
    own = (container.resources, container.ports, container.restart_policy)
    return (*own, *_config_maps_of(container, pod)) if container.env or container.env_from else own


def _volumes(pod: Pod) -> tuple[list[str], list[str]]:
    """Names of claims and of required config maps that volumes refer to."""
    claims: list[str] = []
    config_maps: list[str] = []
    for volume in pod.spec.volumes or ():
        if (claim := claim_name(volume, pod.metadata.name)) is not None:
            claims.append(claim)
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
