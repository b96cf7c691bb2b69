"""Work that comes, and work that goes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from kai.model.objects import Pod, PodGroup
from kai.simulate import lives
from kai.simulate.changes.change import ChangeRefused, job_of
from kai.simulate.changes.groups import resource_of
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWorkload:
    """Submit workloads: their pod groups, and their pods as these wait for a place."""

    groups: Sequence[PodGroup]
    pods: Sequence[Pod] = field(repr=False)
    #: The file that they are in, if they are in one.
    file: str = ""

    @property
    def text(self) -> str:
        """What to do."""
        named = self.file or ", ".join(group.key for group in self.groups)
        return f"submit {named}"

    def command(self, state: ClusterState) -> str | None:
        """How the file is applied; None where there is none."""
        del state
        return f"kubectl apply -f {shlex.quote(self.file)}" if self.file else None

    def make(self, journal: Journal) -> None:
        """Put groups and pods."""
        known = journal.state.tasks_by_key
        for pod in self.pods:
            if pod.key in known:
                raise ChangeRefused(
                    f"pod {pod.key} is in the cluster already; give it another name in the manifest"
                )
        for group in self.groups:
            journal.put(Kind.POD_GROUP, group)
        for pod in self.pods:
            journal.create(pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkload:
    """Delete a workload (``namespace/name`` of its pod group) with all its pods."""

    group: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"delete {self.group}"

    def command(self, state: ClusterState) -> str | None:
        """The deletion of what made the group, or of the group's pods where nothing did."""
        job = job_of(state, self.group)
        owners = state.group_objects[job.key].metadata.owner_references
        if owners:
            target = resource_of(owners[0].kind, owners[0].api_version, owners[0].name)
            return f"kubectl delete {target} -n {job.namespace}"
        pods = sorted(task.name for task in state.members.get(job.key, {}).values())
        return f"kubectl delete pod {' '.join(pods)} -n {job.namespace}" if pods else None

    def make(self, journal: Journal) -> None:
        """Let its pods be gone, and then the group."""
        job = job_of(journal.state, self.group)
        for task in list(journal.state.members.get(job.key, {}).values()):
            lives.end(journal, task)
        journal.drop(Kind.POD_GROUP, self.group)
