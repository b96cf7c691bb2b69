"""Changes of how a workload stands to others, and of how much of it is needed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.model import names, spelling
from kai.model.objects import PodGroup
from kai.model.rules.priorities import PREEMPTIBILITIES
from kai.model.rules.top_owner import top_owner
from kai.simulate.changes.change import ChangeRefused, job_of, patch
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPriority:
    """Give a workload (``namespace/name`` of its pod group) another priority class."""

    group: str
    priority_class: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"give {self.group} the priority class {self.priority_class!r}"

    def command(self, state: ClusterState) -> str | None:
        """A label of the workload that the group has, and a patch of the group."""
        return on_owner(
            state,
            self.group,
            f"label {{}} {shlex.quote(f'{names.PRIORITY_CLASS_LABEL}={self.priority_class}')} --overwrite",
            {"priorityClassName": self.priority_class},
        )

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        classes = journal.state.priority_classes
        if self.priority_class not in classes:
            near = spelling.nearest(self.priority_class, classes)
            hint = f"did you mean {near!r}?" if near else "see `kubectl get priorityclasses`"
            raise ChangeRefused(f"there is no priority class {self.priority_class!r}; {hint}")
        _replace(journal, self.group, priority_class_name=self.priority_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPreemptibility:
    """Let others take a workload's resources, or not: one of ``PREEMPTIBILITIES``."""

    group: str
    preemptibility: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"make {self.group} {self.preemptibility}"

    def command(self, state: ClusterState) -> str | None:
        """A label of the workload that the group has, and a patch of the group."""
        return on_owner(
            state,
            self.group,
            f"label {{}} {names.PREEMPTIBILITY_LABEL}={self.preemptibility} --overwrite",
            {"preemptibility": self.preemptibility},
        )

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        if self.preemptibility not in PREEMPTIBILITIES:
            raise ChangeRefused(
                f"{self.preemptibility!r} is no preemptibility; write one of {', '.join(PREEMPTIBILITIES)}"
            )
        _replace(journal, self.group, preemptibility=self.preemptibility)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMinimum:
    """Let a workload without subgroups start with so many pods."""

    group: str
    minimum: int

    @property
    def text(self) -> str:
        """What to do."""
        pods = "1 pod" if self.minimum == 1 else f"{self.minimum} pods"
        return f"let {self.group} start with {pods}"

    def command(self, state: ClusterState) -> str | None:
        """An annotation of a Job, and a patch of the group; of other owners the kind decides."""
        job_of(state, self.group)
        owner = _owner(state, self.group)
        if owner is not None and owner.kind != "Job":
            return None
        return on_owner(
            state,
            self.group,
            f"annotate {{}} {names.BATCH_MIN_MEMBER}={self.minimum} --overwrite",
            {"minMember": self.minimum},
        )

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        job = job_of(journal.state, self.group)
        if _object(journal.state, job).spec.sub_groups:
            raise ChangeRefused(f"pod group {self.group} has subgroups; each of them has its own minimum")
        if self.minimum < 1:
            raise ChangeRefused(f"the minimum of {self.group} is {self.minimum}; it must be 1 or more")
        _replace(journal, self.group, min_member=self.minimum)


#: Kinds that kubectl knows by their own name, whatever else is installed.
_BUILT_IN: Final = {
    "Pod": "pod", "Job": "job", "CronJob": "cronjob", "Deployment": "deployment", "ReplicaSet": "replicaset",
    "StatefulSet": "statefulset", "DaemonSet": "daemonset", "ReplicationController": "replicationcontroller",
}  # fmt: skip


def resource_of(kind: str, api_version: str, name: str) -> str:
    """How kubectl is told of an object in a shell: ``job/a``, ``pytorchjob.kubeflow.org/a``."""
    group = api_version.partition("/")[0] if "/" in api_version else ""
    called = _BUILT_IN.get(kind) or (f"{kind.lower()}.{group}" if group else kind.lower())
    return shlex.quote(f"{called}/{name}")


def _object(state: ClusterState, job: Job) -> PodGroup:
    return state.group_objects[job.key]


def _owner(state: ClusterState, key: str) -> Any:
    owners = _object(state, job_of(state, key)).metadata.owner_references
    return owners[0] if owners else None


def deployment_of(state: ClusterState, key: str) -> str | None:
    """The Deployment of whose pods each is a group of its own, as kubectl is told of it; None: of none."""
    owner, top = _owner(state, key), top_owner(_object(state, job_of(state, key)))
    of_a_pod = owner is not None and owner.kind == "Pod"
    return resource_of(top.kind, "", top.name) if of_a_pod and top and top.kind == "Deployment" else None


def on_owner(state: ClusterState, key: str, words: str, spec: dict[str, Any]) -> str:
    """What is done to the group, and to the workload that it was made of where there is one.

    Both, since they hold for different things: nobody looks at a workload again while its pods stay as they
    are, and some fields of a group that is there are never touched; but the groups of pods to come, and all
    that is brought up to date with the workload, follow from its labels and annotations. Those of a
    Deployment come before those of its pods, which stay as long as these do.
    """
    job = job_of(state, key)
    group = patch(f"podgroup/{job.name}", job.namespace, {"spec": spec})
    owner = _owner(state, key)
    if owner is None:
        return group
    own = resource_of(owner.kind, owner.api_version, owner.name)
    targets = " ".join(filter(None, (deployment_of(state, key), own)))
    return f"kubectl {words.format(targets)} -n {job.namespace} && {group}"


def _replace(journal: Journal, key: str, **fields: Any) -> None:
    obj = _object(journal.state, job_of(journal.state, key))
    journal.put(
        Kind.POD_GROUP, msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, **fields))
    )


__all__ = ["SetMinimum", "SetPreemptibility", "SetPriority", "deployment_of", "on_owner", "resource_of"]
