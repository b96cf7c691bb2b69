"""What of a semi-preemptible job nobody may take: the pods that make up its minimum, its core.

A pod set keeps as many pods as it needs, the first in order. Of the members of a subgroup as many as it
needs are kept, those that have what they need first, then by name; of these in turn their core. So the core
stays the same while pods outside of it come and go, and what there is of one that is not complete is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Sized
from typing import TypeAlias

from kai.model.ids import PodUid
from kai.snapshot.amounts import Amounts
from kai.snapshot.rows import Job, PodSet, SubGroupSet, Task

Member: TypeAlias = PodSet | SubGroupSet


def filled(member: Member, held: Callable[[PodSet], Sized]) -> int:
    """How much a part of a job has, where its pod sets hold these: pods, or members that have enough."""
    if isinstance(member, PodSet):
        return len(held(member))
    return sum(enough(each, held) for each in member.members)


def enough(member: Member, held: Callable[[PodSet], Sized]) -> bool:
    """Whether a part of a job has what it needs, where its pod sets hold these.

    Rows say the same of what is placed, of what is used and of what exists; this is for any other case.
    """
    return filled(member, held) >= member.threshold


class Holdings:
    """Which pods of a job hold something, with some of them counted as gone, or as placed."""

    def __init__(self, job: Job, *, gone: Collection[PodUid] = (), placed: Collection[PodUid] = ()) -> None:
        """Costs time by the number of the job's pods. Read at once: what changes later is not seen."""
        self._job = job
        #: Best first.
        self._of = {
            name: [
                task
                for task in pod_set.sorted_tasks()
                if (task.charged is not None or task.uid in placed) and task.uid not in gone
            ]
            for name, pod_set in job.pod_sets.items()
        }

    def _held(self, pod_set: PodSet) -> list[Task]:
        return self._of[pod_set.name]

    def below(self, member: Member) -> list[Task]:
        """All that a part of the job has."""
        if isinstance(member, PodSet):
            return self._of[member.name]
        return [task for each in member.members for task in self.below(each)]

    def satisfied(self, member: Member) -> bool:
        """Whether a part of the job has what it needs."""
        return enough(member, self._held)

    def core_members(self, group: SubGroupSet) -> list[Member]:
        """Those members of a subgroup that it keeps."""
        return self._ranked(group)[: group.threshold]

    def other_members(self, group: SubGroupSet) -> list[Member]:
        """Those that it does without."""
        return self._ranked(group)[group.threshold :]

    def core(self) -> list[Task]:
        """The pods that nobody may take."""
        return self._core(self._job.root)

    def _core(self, member: Member) -> list[Task]:
        if isinstance(member, PodSet):
            return self._of[member.name][: member.min_member]
        return [task for each in self.core_members(member) for task in self._core(each)]

    def _ranked(self, group: SubGroupSet) -> list[Member]:
        return sorted(group.members, key=lambda member: (not self.satisfied(member), member.name))


def core_amounts(job: Job, *, placed: Sequence[Task] = (), gpu_memory_mib: int = 0) -> Amounts:
    """What the core of a job is charged; tasks that are ``placed`` as on GPUs of ``gpu_memory_mib``.

    Costs time by the number of the job's pods.
    """
    cpu_millis = memory_bytes = gpu_centi = 0
    for task in Holdings(job, placed={task.uid for task in placed}).core():
        cpu, memory, gpu = task.charged or task.cls.charge(gpu_memory_mib)
        cpu_millis, memory_bytes, gpu_centi = cpu_millis + cpu, memory_bytes + memory, gpu_centi + gpu
    return Amounts(cpu_millis, memory_bytes, gpu_centi)
