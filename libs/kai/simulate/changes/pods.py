"""Changes of where the pods of a workload may run, and of what they ask for; only those that wait change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.objects import Pod, PodSpec, ResourceRequirements, Toleration
from kai.model.quantity import InvalidQuantity, parse
from kai.simulate.changes.change import ChangeRefused, job_of, patch
from kai.simulate.changes.groups import deployment_of, resource_of
from kai.simulate.journal import Journal
from kai.snapshot.rows import Job, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

#: Workloads whose template can be changed, and whose pods then come anew.
_TEMPLATES: Final = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNodeSelector:
    """Let the pods of a group run on nodes with this label only; without a value (None) on others, too."""

    group: str
    label: str
    value: str | None

    @property
    def text(self) -> str:
        """What to do."""
        if self.value is None:
            return f"take the node selector {self.label} from {self.group}"
        return f"give {self.group} the node selector {self.label}={self.value}"

    def command(self, state: ClusterState) -> str | None:
        """A patch of the template, where the workload lets it be changed."""
        return _on_template(state, self.group, {"nodeSelector": {self.label: self.value}})

    def make(self, journal: Journal) -> None:
        """Let the pods that wait be of other classes."""

        def changed(spec: PodSpec) -> PodSpec:
            selector = {key: value for key, value in (spec.node_selector or {}).items() if key != self.label}
            if self.value is not None:
                selector[self.label] = self.value
            return msgspec.structs.replace(spec, node_selector=selector or None)

        _change(journal, self.group, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToleration:
    """Let the pods of a group run on nodes with a taint."""

    group: str
    key: str
    value: str = ""
    effect: str = ""

    @property
    def text(self) -> str:
        """What to do."""
        value = f"={self.value}" if self.value else ""
        effect = f":{self.effect}" if self.effect else ""
        return f"let {self.group} tolerate the taint {self.key}{value}{effect}"

    @property
    def toleration(self) -> Toleration:
        """What is added to each pod."""
        return Toleration(key=self.key, operator="Equal", value=self.value, effect=self.effect)

    def command(self, state: ClusterState) -> str | None:
        """None: what is in a list cannot be added by a patch that works whatever else is in it."""
        job_of(state, self.group)
        return None

    def make(self, journal: Journal) -> None:
        """Let the pods that wait be of other classes."""
        _change(
            journal,
            self.group,
            lambda spec: msgspec.structs.replace(
                spec, tolerations=[*(spec.tolerations or ()), self.toleration]
            ),
        )


#: What can be left out of pods: the field of their specification, and the part of ``affinity`` if it is one.
_CONSTRAINTS: Final[Mapping[str, tuple[str, str]]] = {
    "node selector": ("node_selector", ""),
    "node affinity": ("affinity", "nodeAffinity"),
    "pod affinity": ("affinity", "podAffinity"),
    "pod anti-affinity": ("affinity", "podAntiAffinity"),
    "topology spread constraints": ("topology_spread_constraints", ""),
    "host ports": ("", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DropConstraint:
    """Leave a constraint out of the pods of a group: one of :attr:`KNOWN`."""

    KNOWN = tuple(_CONSTRAINTS)

    group: str
    constraint: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"take the {self.constraint} from {self.group}"

    def command(self, state: ClusterState) -> str | None:
        """A patch of the template, where the workload lets it be changed."""
        field, part = _CONSTRAINTS[self.constraint]
        if not field:
            job_of(state, self.group)
            return None
        written = {
            "node_selector": "nodeSelector",
            "affinity": "affinity",
            "topology_spread_constraints": "topologySpreadConstraints",
        }[field]
        return _on_template(state, self.group, {written: {part: None} if part else None})

    def make(self, journal: Journal) -> None:
        """Let the pods that wait be of other classes."""
        field, part = _CONSTRAINTS[self.constraint]

        def changed(spec: PodSpec) -> PodSpec:
            if not field:
                containers = [msgspec.structs.replace(each, ports=None) for each in spec.containers]
                return msgspec.structs.replace(spec, containers=containers)
            if not part:
                return msgspec.structs.replace(spec, **{field: None})
            affinity = {key: value for key, value in (spec.affinity or {}).items() if key != part}
            return msgspec.structs.replace(spec, affinity=affinity or None)

        _change(journal, self.group, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRequest:
    """Let each pod of a group ask for so much of a resource; a quantity such as ``2`` or ``16Gi``.

    The first container asks for it, others for what they did less what is left over.
    """

    group: str
    resource: str
    amount: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"let each pod of {self.group} ask for {self.amount} {self.resource}"

    def command(self, state: ClusterState) -> str | None:
        """None: requests of pods and of templates stand in lists."""
        job_of(state, self.group)
        return None

    def make(self, journal: Journal) -> None:
        """Let the pods that wait be of other classes."""
        try:
            wanted = parse(self.amount)
        except InvalidQuantity as error:
            raise ChangeRefused(f"{self.resource}: {error}") from error
        if wanted < 0:
            raise ChangeRefused(f"{self.resource}: {self.amount} is negative; write what a pod needs")

        def changed(spec: PodSpec) -> PodSpec:
            holders = [n for n, each in enumerate(spec.containers) if _asks(each.resources, self.resource)]
            if len(holders) > 1:
                raise ChangeRefused(
                    f"several containers of the pods of {self.group} ask for {self.resource}; "
                    "which of them is to ask for less cannot be told"
                )
            first = holders[0] if holders else 0
            containers = list(spec.containers)
            containers[first] = msgspec.structs.replace(
                containers[first],
                resources=_asking(containers[first].resources, self.resource, self.amount),
            )
            return msgspec.structs.replace(spec, containers=containers)

        _change(journal, self.group, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGpuShare:
    """Let each pod of a group ask for such a part of a GPU (``0.5``), or for MiB of its memory."""

    group: str
    portion: float = 0.0
    memory_mib: int = 0

    @property
    def text(self) -> str:
        """What to do."""
        part = f"{self.portion:g} of a GPU" if self.portion else f"{self.memory_mib} MiB of a GPU"
        return f"let each pod of {self.group} ask for {part}"

    def command(self, state: ClusterState) -> str | None:
        """None: what a pod asks for is said when it is made."""
        job_of(state, self.group)
        return None

    def make(self, journal: Journal) -> None:
        """Let the pods that wait be of other classes."""
        job = job_of(journal.state, self.group)
        for task in _waiting(job):
            pod = task.cls.pod
            kept = {
                key: text
                for key, text in pod.annotations.items()
                if key not in (names.GPU_FRACTION, names.GPU_MEMORY)
            }
            if self.portion:
                kept[names.GPU_FRACTION] = f"{self.portion:g}"
            else:
                kept[names.GPU_MEMORY] = str(self.memory_mib)
            meta = msgspec.structs.replace(pod.metadata, annotations=kept)
            journal.reclass(task, msgspec.structs.replace(pod, metadata=meta))


def _asks(resources: ResourceRequirements | None, name: str) -> bool:
    return resources is not None and (name in (resources.requests or {}) or name in (resources.limits or {}))


def _asking(resources: ResourceRequirements | None, name: str, amount: str) -> ResourceRequirements:
    known = resources or ResourceRequirements()
    limits = known.limits
    if limits and name in limits:
        limits = {**limits, name: amount}
    return msgspec.structs.replace(known, requests={**(known.requests or {}), name: amount}, limits=limits)


def _waiting(job: Job) -> list[Task]:
    return [
        task
        for pod_set in job.pod_sets.values()
        for task in pod_set.tasks.values()
        if task.status in (Status.PENDING, Status.GATED)
    ]


def _change(journal: Journal, group: str, changed: Callable[[PodSpec], PodSpec]) -> None:
    """Change the pods that wait, those of one class alike."""
    job = job_of(journal.state, group)
    found: dict[int, Pod] = {}
    tasks = _waiting(job)
    for task in tasks:
        if task.cls.id not in found:
            pod = task.cls.pod
            found[task.cls.id] = msgspec.structs.replace(pod, spec=changed(pod.spec))
    for task, pod in [(task, found[task.cls.id]) for task in tasks]:
        journal.reclass(task, pod)


def _on_template(state: ClusterState, group: str, spec: dict[str, Any]) -> str | None:
    job = job_of(state, group)
    owners = (state.group_objects[job.key].metadata.owner_references or ())[:1]
    own = (resource_of(each.kind, each.api_version, each.name) for each in owners if each.kind in _TEMPLATES)
    target = deployment_of(state, group) or next(own, None)
    if target is None:
        return None
    return patch(target, job.namespace, {"spec": {"template": {"spec": spec}}})
