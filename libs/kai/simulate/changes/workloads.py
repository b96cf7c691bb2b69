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
    #: The files that they are in, if they are in any.
    files: Sequence[str] = ()
    #: Where those of the files come that name no namespace; empty where kubectl need not be told. None where
    #: it cannot: it takes no namespace beside objects that name another one.
    namespace: str | None = ""

    @property
    def text(self) -> str:
        """What to do."""
        return f"submit {', '.join(self.files or [group.key for group in self.groups])}"

    def command(self, state: ClusterState) -> str | None:
        """How the files are applied; None where there are none, or no single command does it."""
        del state
        if not self.files or self.namespace is None:
            return None
        files = " ".join(f"-f {shlex.quote(file)}" for file in self.files)
        where = f" -n {shlex.quote(self.namespace)}" if self.namespace else ""
        return f"kubectl apply {files}{where}"

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
