"""What a plugin may see of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kai.config import EngineParams
from kai.config.arguments import Arguments
from kai.engine.kernel.static import StaticFilters
from kai.engine.queueing.shares import Division
from kai.model.decisions import Allotment
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.snapshot.class_table import ClassTable
from kai.snapshot.classes import TaskClass
from kai.snapshot.eviction_refusals import EvictionRefusals
from kai.snapshot.kept import KeptValues
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.refusals import Refusals
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.table import NodeTable

A = TypeVar("A", bound=Arguments)


class ArgumentsOf(Protocol):
    """What a plugin was told."""

    def __call__(self, kind: type[A], /) -> A:
        """Its arguments, as the type that it declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The cluster as of now, virtual placements included; to be read, and changed by :attr:`allot` alone.

    Rows and tables are those of the state itself, so what a plugin reads later is newer.
    """

    #: Nodes, and ``[nodes, resources]`` what they have, what is idle and what is being released.
    nodes: NodeTable
    #: Labels of nodes as columns, and what a class demands of nodes apart from room.
    filters: StaticFilters
    #: All pods by uid, and those of them that want to be near or away from others.
    tasks: Mapping[PodUid, Task]
    affine: Mapping[PodUid, Task]
    #: Pod groups by ``namespace/name``, and those of them that have pods which wait.
    jobs: Mapping[PodGroupKey, Job]
    pending_jobs: Mapping[PodGroupKey, Job]
    #: Parents before children; a queue's place in it is its row.
    queues: Sequence[Queue]
    classes: ClassTable
    resources: ResourceTable
    #: Other objects by kind and key, and a number for each kind that changes with every change.
    objects: Mapping[Kind, Mapping[str, Any]]
    versions: Mapping[Kind, int]
    #: Objects that could not be taken in.
    faults: Mapping[tuple[Kind, str], Fault]
    #: The tree of queues with their columns, and what each is entitled to.
    division: Division
    #: MiB of the smallest and the largest GPUs.
    min_gpu_memory_mib: int
    max_gpu_memory_mib: int
    #: Jobs that could be given a place as of now.
    allocatable: Callable[[], list[Job]]
    #: Nodes that refused pods of late.
    refusals: Refusals
    #: Pods that were not let go of late.
    eviction_refusals: EvictionRefusals
    params: StateParams
    flags: EngineParams
    #: Unix seconds.
    now: float
    #: Time alone changes what the plugin says at a moment: let there be a cycle then.
    due: Callable[[float], None]
    #: Sets ``Task.allotment``; trackers use it.
    allot: Callable[[Task, Allotment | None], None]
    #: For :class:`~kai.snapshot.kept.Kept`.
    kept: KeptValues
    #: What a plugin was told, as the type of arguments that it declares.
    arguments: ArgumentsOf
    #: Whether what pods require of nodes and of each other counts, and whether what they prefer does.
    requires: bool
    prefers: bool
    #: Whether somebody serves resource claims.
    claims: bool
    #: Whether pods that run may be placed anew, so that what they demand matters, too.
    moves: bool
    #: The classes of all pods of the groups that have something waiting.
    waiting: frozenset[TaskClass] = field(init=False)

    def __post_init__(self) -> None:
        waiting = {
            task.cls
            for job in self.pending_jobs.values()
            for pod_set in job.pod_sets.values()
            for task in pod_set.tasks.values()
        }
        object.__setattr__(self, "waiting", frozenset(waiting))
