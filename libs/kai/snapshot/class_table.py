"""Which scheduling class a pod is of; equal pods get the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from kai.model import names
from kai.model.claims import Grant
from kai.model.objects import Container, ObjectMeta, Pod, PodSpec
from kai.model.requests import resized
from kai.model.rules.gpus import mig_gpus
from kai.snapshot import pod_bounds
from kai.snapshot.asked import asked
from kai.snapshot.classes import ClaimedGpus, GpuKind, TaskClass
from kai.snapshot.constraints import constraints_of, container_key, numa_inputs, volume_references
from kai.snapshot.essence import essence
from kai.snapshot.gpu_need import GPU_ANNOTATIONS, gpu_annotations, gpu_need
from kai.snapshot.resources import CPU, MEMORY, PODS, ResourceTable

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_encode_quickly = msgspec.msgpack.Encoder().encode
#: Reservation pods ask for the devices that are shared by this name.
_OF_SHARED: Final = frozenset((names.NVIDIA_GPU,))
_NO_CLAIMS: Final = ClaimedGpus()
#: So many classes may wait for a pod that is like those that they had.
_SPARE: Final = 256
#: Users decide how long the inputs of a class are: of longer ones a digest is kept.
_SHORT: Final = 1024


class ClassTable:
    """All scheduling classes; equal pods get the same one."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        #: By what pods say, which is quickly written down, and by what follows from it: pods that say other
        #: things may be of the same class.
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

    def of(self, pod: Pod, *, claimed: ClaimedGpus = _NO_CLAIMS) -> TaskClass:
        """The class of a pod; ``claimed`` is what its resource claims are for.

        Raises:
            OutOfBounds: the pod asks for what nobody can take in.
        """
        try:
            inputs = self._quick_key(pod, claimed)
        except (OverflowError, TypeError, ValueError, AttributeError):
            pod_bounds.check_scheduling(pod)  # which tells what it is that cannot be written down
            raise
        quick = inputs if len(inputs) <= _SHORT else blake2b(inputs, digest_size=16).digest()
        known = self._quick.get(quick)
        if known is None:
            known = self._quick[quick] = self._derive(pod, claimed)
        return known

    def bare(self, cls: TaskClass) -> TaskClass:
        """A class that holds what this one does, and of which nothing else is known.

        For pods that are only counted: neither affinities nor tolerations of theirs are looked at again.
        """
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
            claimed=cls.claimed,
        )

    def granted(self, cls: TaskClass, grant: Grant) -> TaskClass:
        """The class of the same pods where they hold this of shared devices, whatever they ask for."""
        held = (cls.devices, cls.portion_centi, cls.gpu_memory_mib)
        if cls.shared and held == (grant.devices, grant.portion_centi, grant.memory_mib):
            return cls
        meta = cls.pod.metadata
        kept = {key: text for key, text in cls.pod.annotations.items() if not key.startswith(GPU_ANNOTATIONS)}
        meta = msgspec.structs.replace(meta, annotations=kept | grant.annotations)
        return self._derive(msgspec.structs.replace(cls.pod, metadata=meta), cls.claimed)

    def again(self, cls: TaskClass) -> TaskClass:
        """The class of the same pods now that nodes offer other resources."""
        return self._derive(cls.pod, cls.claimed)

    def offered_now(self) -> None:
        """Nodes offer a resource that none did: what was derived of those who ask for it holds no longer."""
        self._keep(lambda cls: not cls.unoffered)

    @property
    def crowded(self) -> bool:
        """Whether it is time to say who uses classes, by :meth:`keep`."""
        return len(self._exact) > self._enough or len(self._quick) > 4 * self._enough

    def keep(self, used: set[TaskClass]) -> None:
        """Forget the classes that nobody uses; ``used`` are those of all pods.

        One that is asked for again later is made anew, and has another id.
        """
        self._keep(used.__contains__)
        self._enough = _SPARE + 2 * len(self._exact)

    def _keep(self, wanted: Callable[[TaskClass], bool]) -> None:
        self._exact = {key: cls for key, cls in self._exact.items() if wanted(cls)}
        # Pods that differ where no class looks have different inputs; a few of these are enough.
        quick = [(key, cls) for key, cls in self._quick.items() if wanted(cls)]
        self._quick = dict(quick[-4 * (_SPARE + len(self._exact)) :])

    def _quick_key(self, pod: Pod, claimed: ClaimedGpus) -> bytes:
        """All inputs of a class, cheaply; pods that differ elsewhere only may share it."""
        spec, status = pod.spec, pod.status
        affinity = spec.affinity
        told = status.container_statuses or status.init_container_statuses
        about_pods = spec.topology_spread_constraints or (
            affinity is not None and ("podAffinity" in affinity or "podAntiAffinity" in affinity)
        )
        return _encode_quickly(
            (
                [
                    container_key(each, pod)
                    if each.env or each.env_from
                    else (each.resources, each.ports, each.restart_policy)
                    for each in spec.containers
                ],
                [container_key(each, pod) for each in spec.init_containers] if spec.init_containers else (),
                spec.overhead,
                spec.resources,
                resized(pod) if spec.node_name and (told or spec.resources is not None) else None,
                spec.node_selector,
                affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                spec.priority_class_name,
                spec.priority,
                spec.preemption_policy,
                spec.host_network,
                spec.volumes and volume_references(pod),
                gpu_annotations(pod),
                claimed,
                (pod.metadata.namespace, pod.metadata.labels) if about_pods else None,
                bool(spec.resource_claims),
                status.qos_class if spec.containers and spec.containers[0].resources else "",
            )
        )

    def _derive(self, pod: Pod, claimed: ClaimedGpus) -> TaskClass:
        pod_bounds.check_scheduling(pod)
        (amounts, unoffered), need, gpu_names = asked(pod, self._resources)
        amounts[PODS] = 1
        gpu = gpu_need(need, amounts, claimed.counted, self._mig_gpus(amounts, unoffered))
        if gpu["kind"] is GpuKind.FRACTION or gpu["kind"] is GpuKind.MEMORY:
            gpu_names = _OF_SHARED
        constraints = constraints_of(pod)
        # What failures of searches are compared by: no amounts, but what they are amounts of.
        signature = _encode(
            (
                gpu["kind"],
                bool(claimed.counted),
                claimed.possible,
                bool(pod.spec.resource_claims),
                sorted(self._resources.names[each] for each, amount in amounts.items() if amount > 0),
                sorted(unoffered),
                sorted(gpu_names),
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
                constraints.own_claims,
                constraints.config_maps,
                constraints.namespace,
                constraints.labels,
                numa_inputs(pod),
                bool(pod.spec.resource_claims),
            )
        )
        known = self._exact.get(exact)
        if known is None:
            known = TaskClass(
                id=self._made,
                items=items,
                unoffered=lacking,
                cpu_millis=amounts.get(CPU, 0),
                memory_bytes=amounts.get(MEMORY, 0),
                constraints=constraints,
                signature=signature,
                claims=bool(pod.spec.resource_claims),
                claims_gpus=claimed.possible,
                gpu_names=gpu_names,
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


def _amounts_of(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)
