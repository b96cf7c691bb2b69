"""Changes that only answers ask about, beside those of :mod:`kai.simulate.changes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from kai.model import names
from kai.model.objects import TopologyConstraint
from kai.simulate import lives
from kai.simulate.changes.change import job_of, patch
from kai.simulate.changes.groups import on_owner
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveToQueue:
    """Charge a workload (``namespace/name`` of its pod group) to another queue."""

    group: str
    queue: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"submit {self.group} to queue {self.queue!r}"

    def command(self, state: ClusterState) -> str | None:
        """A label of the workload that the group has, and a patch of the group."""
        label = f"label {{}} {state.params.queue_label_key}={self.queue} --overwrite"
        return on_owner(state, self.group, label, {"queue": self.queue})

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        _put(journal, self.group, queue=self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxTopology:
    """Require no level of a topology any more; what is preferred stays."""

    group: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"require no topology level of {self.group}"

    def command(self, state: ClusterState) -> str | None:
        """The annotation of the workload goes, and the level of the group; None where there are subgroups."""
        if state.group_objects[job_of(state, self.group).key].spec.sub_groups:
            return None
        level = {"topologyConstraint": {"requiredTopologyLevel": None}}
        return on_owner(state, self.group, f"annotate {{}} {names.TOPOLOGY_REQUIRED}-", level)

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        group = journal.state.group_objects[job_of(journal.state, self.group).key]
        parts = [
            msgspec.structs.replace(part, topology_constraint=_relaxed(part.topology_constraint))
            for part in group.spec.sub_groups or ()
        ]
        constraint = _relaxed(group.spec.topology_constraint)
        _put(journal, self.group, topology_constraint=constraint, sub_groups=parts or None)


def _relaxed(constraint: TopologyConstraint | None) -> TopologyConstraint | None:
    return constraint and msgspec.structs.replace(constraint, required_topology_level="")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDelay:
    """Let a workload take the place of others at once, whatever its preemption delay says."""

    group: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"take the preemption delay from {self.group}"

    def command(self, state: ClusterState) -> str | None:
        """The annotation of the workload goes, and the delay of the group."""
        delay = f"annotate {{}} {names.PREEMPTION_DELAY}-"
        return on_owner(state, self.group, delay, {"preemptionDelay": None})

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        _put(journal, self.group, preemption_delay=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """Let a workload that wants a single attempt have as many as it takes."""

    group: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"let {self.group} be tried again and again"

    def command(self, state: ClusterState) -> str | None:
        """A patch of the group, which its workload says nothing of."""
        job = job_of(state, self.group)
        return patch(f"podgroup/{job.name}", job.namespace, {"spec": {"schedulingBackoff": -1}})

    def make(self, journal: Journal) -> None:
        """Put another version of the group."""
        _put(journal, self.group, scheduling_backoff=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndProtection:
    """As if all that runs had run for long: no minimum runtime protects anybody."""

    text: str = "let nobody be protected by a minimum runtime"

    def command(self, state: ClusterState) -> str | None:
        """None: time does it."""
        del state
        return None

    def make(self, journal: Journal) -> None:
        """Let everything have started long ago."""
        for job in journal.state.jobs.values():
            if job.last_start or job.active_used:
                journal.state.started(job, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOthers:
    """As if all other work had ended, and none waited."""

    group: str

    @property
    def text(self) -> str:
        """What would be."""
        return f"let all but {self.group} end"

    def command(self, state: ClusterState) -> str | None:
        """None: it ends by itself."""
        job_of(state, self.group)
        return None

    def make(self, journal: Journal) -> None:
        """Let the pods of all other groups be gone."""
        job = job_of(journal.state, self.group)
        for task in list(journal.state.tasks.values()):
            if task.job is not None and task.job is not job and task.uid in journal.state.tasks:
                lives.end(journal, task)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftGates:
    """Take the scheduling gates from the pods of a workload."""

    group: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"take the scheduling gates from the pods of {self.group}"

    def command(self, state: ClusterState) -> str | None:
        """A patch of each pod, where they are few."""
        job = job_of(state, self.group)
        held = sorted(task.name for task in _gated(state, self.group))
        if len(held) != 1:
            return None
        body = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
        return f"kubectl patch pod {held[0]} -n {job.namespace} --type=json -p '{body}'"

    def make(self, journal: Journal) -> None:
        """Let each pod come anew without its gates."""
        for task in _gated(journal.state, self.group):
            lives.instead(journal, task, lives.again(journal.state, task, now=journal.state.now))


def _gated(state: ClusterState, key: str) -> list[Task]:
    job = job_of(state, key)
    found = [task for pod_set in job.pod_sets.values() for task in pod_set.tasks.values()]
    return [task for task in found if task.status is Status.GATED]


def _put(journal: Journal, key: str, **fields: Any) -> None:
    group = journal.state.group_objects[job_of(journal.state, key).key]
    spec = msgspec.structs.replace(group.spec, **fields)
    journal.put(Kind.POD_GROUP, msgspec.structs.replace(group, spec=spec))
