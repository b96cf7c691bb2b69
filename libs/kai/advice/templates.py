"""Where workloads keep the pods that they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from kai.model.objects import ApiObject, Container, Json, ObjectMeta, Pod, PodSpec, ResourceList

#: Path from a workload to its pod template, by kind.
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
KINDS: Final = ("Pod", *_TEMPLATES)


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod, or what makes pods: its own metadata, and those that it gives to its pods."""

    kind: str
    metadata: ObjectMeta
    pod: Pod
    #: Whose labels and annotations count before those of its pods.
    grouped_by: ObjectMeta
    #: How many pods run at the same time; None where nothing says so.
    parallelism: int | None = None
    #: Metadata in between: of the Job that a CronJob makes.
    owners: tuple[ObjectMeta, ...] = field(default=())

    @property
    def spec(self) -> PodSpec:
        """What its pods are to be."""
        return self.pod.spec

    @property
    def where(self) -> str:
        """How messages call it."""
        return called(self.kind, self.metadata)


def called(kind: str, meta: ObjectMeta) -> str:
    """How messages call an object of a namespace."""
    return f"{kind.lower()} {meta.namespace}/{meta.name or meta.generate_name + '*'}"


def workload_of(kind: str, body: Json, namespace: str) -> Workload:
    """The workload that ``body`` describes; ``namespace`` where it does not say.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    metadata = msgspec.convert(body, ApiObject).metadata
    metadata.namespace = metadata.namespace or namespace
    if kind == "Pod":
        return Workload(kind, metadata, msgspec.convert(body, Pod), metadata)
    path = _TEMPLATES[kind]
    parts = [_at(body, path[:depth]) for depth in range(1, len(path) + 1)]
    spec = parts[0]
    parallelism = spec.get("parallelism") if kind == "Job" else spec.get("replicas")
    pod = msgspec.convert(parts[-1], Pod)
    owners = tuple(msgspec.convert(part, ApiObject).metadata for part in parts[1:-2])
    return Workload(
        kind,
        metadata,
        pod,
        _grouped_by(kind, metadata, pod, owners),
        parallelism if isinstance(parallelism, int) else None,
        owners,
    )


def _grouped_by(kind: str, metadata: ObjectMeta, pod: Pod, owners: tuple[ObjectMeta, ...]) -> ObjectMeta:
    """Each run of a CronJob is grouped by its Job.

    Who groups may not read DaemonSets, so that each of their pods is on its own.
    """
    if kind == "CronJob":
        return owners[-1]
    return pod.metadata if kind == "DaemonSet" else metadata


def _at(body: Json, path: tuple[str, ...]) -> Json:
    for key in path:
        found = body.get(key)
        if not isinstance(found, dict):
            raise msgspec.ValidationError(f"Expected `object`, got none - at `$.{'.'.join(path)}`")
        body = found
    return body


def containers(spec: PodSpec) -> list[Container]:
    """Init containers and regular ones."""
    return [*(spec.init_containers or []), *spec.containers]


def limits(container: Container) -> ResourceList:
    """What the container is held to."""
    return (container.resources and container.resources.limits) or {}
