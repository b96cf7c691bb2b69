"""Rows of the cluster state: nodes, tasks, pod groups (jobs) and queues, with the sums that decisions read.

Only :mod:`kai.snapshot.ledger` changes sums and statuses, and nobody outside of this package changes a row.
A row is one object that changes in place, so rows refer to each other directly, and are compared and hashed
by identity. What was worked out from the sums of a job or queue is valid until its ``version`` changes.
Properties are worked out when asked for: those of trees take time by the number of their members.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from kai.model import names
from kai.model.decisions import Allotment, PodRef, ResourceVector
from kai.model.faults import Fault
from kai.model.ids import NO_POD_GROUP, GpuGroup, PodGroupKey, PodUid
from kai.model.objects import Node as NodeObject
from kai.model.objects import Pod, TopologyConstraint
from kai.model.rules.queue_amounts import PRIORITY
from kai.snapshot.amounts import GPU_CENTI, Amounts, SharedClaim, SharedDevice, Totals
from kai.snapshot.classes import TaskClass
from kai.snapshot.group_order import TaskKey
from kai.snapshot.status import Status

DEFAULT_POD_SET: Final = "default"
#: MiB of each GPU of a node that does not say.
UNKNOWN_GPU_MEMORY_MIB: Final = 100


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Node:
    """One node; amounts stand in row ``row`` of the node table.

    The row changes when nodes come and go, and is right once the state is settled. What is read from the
    object is read once, when it is taken in.
    """

    name: str
    row: int
    object: NodeObject
    gpu_memory_mib: int = UNKNOWN_GPU_MEMORY_MIB
    gpu_memory_known: bool = False
    gpu_count: int = 0
    #: Whole devices offered, those of resource slices included.
    gpus: int = 0
    mig: bool = False
    mig_strategy: str = ""
    dra_gpus: int = 0
    #: Whole devices that a pod can ask for as a resource: a device plugin's, or claimed for it by a class.
    askable_gpus: int = 0
    #: The names of resources by which it can do so.
    gpu_names: frozenset[str] = frozenset()
    #: Tasks here that ask for MIG devices by annotation; no other MIG pods may join them.
    legacy_mig: int = 0
    ready: bool = True
    cpu_worker: bool = False
    gpu_worker: bool = False
    #: Shared devices by group id.
    groups: dict[GpuGroup, SharedDevice] = field(default_factory=dict)
    #: GPU claims in use here by key, charged once.
    claims: dict[str, SharedClaim] = field(default_factory=dict)
    #: Tasks charged here, by uid; one that is being moved away stays until it is gone.
    tasks: dict[PodUid, Task] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    @property
    def cpu_only(self) -> bool:
        """Whether it has no GPUs of any kind: no devices, no MIG devices, and none by resource slices."""
        return not self.mig and self.gpus <= 0

    def free_parts(self) -> list[tuple[GpuGroup, int]]:
        """What is free of each shared device, or being released, in MiB and never below 0.

        Only of those in use: the others count among whole GPUs, as idle or being released.
        """
        memory = self.gpu_memory_mib
        return [
            (group, max(device.free_mib(memory), 0)) for group, device in self.groups.items() if device.in_use
        ]


class Task(msgspec.Struct, eq=False, kw_only=True):
    """One pod, whatever its group and scheduler.

    ``node`` is where it holds resources, ``pipelined_node`` where it waits for some; while it is being moved
    it has both, and they may be the same. ``job`` and ``pod_set`` are both there, or neither: a pod without
    them is counted on its node, is charged to nobody, and nothing is decided about it. Which class it is of
    may change while it is in no sum.
    """

    uid: PodUid
    namespace: str
    name: str
    cls: TaskClass
    created: float
    #: Its place in its pod set, best first (:class:`~kai.snapshot.group_order.GroupOrder`).
    order: TaskKey
    labels: dict[str, str] | None
    #: GPU claims by key, with the GPUs of each.
    claims: tuple[tuple[str, int], ...] = ()
    status: Status = Status.PENDING
    job: Job | None = None
    pod_set: PodSet | None = None
    node: Node | None = None
    groups: tuple[GpuGroup, ...] = ()
    #: What its node is charged: None where it holds nothing; True while being released.
    releasing: bool | None = None
    pipelined_node: Node | None = None
    pipelined_groups: tuple[GpuGroup, ...] = ()
    #: Charged to its queue; None if nothing is.
    charged: Amounts | None = None
    #: The same of one that lingers; nobody can take that.
    lingering: Amounts | None = None
    #: Its state is the doing of a statement that is not committed.
    virtual: bool = False
    #: What the last cycle foresaw, and what users or the API server nominated.
    nominated: str = ""
    facts: PodFacts | None = None
    #: What plugins found for it where it is; None where none had to.
    allotment: Allotment | None = None
    #: Only what it holds is known of it.
    bare: bool = False
    #: Its queue is not open to it: it is given no place, and keeps the one that it has.
    shut_out: bool = False
    #: The class that it says it is of, where it was granted something else.
    declared_cls: TaskClass | None = None

    def __repr__(self) -> str:
        return f"<Task {self.key}>"

    @property
    def key(self) -> str:
        """``namespace/name``, the same for as long as the row is there."""
        return self.facts.key if self.facts is not None else f"{self.namespace}/{self.name}"

    def ref(self) -> PodRef:
        """The identity that decisions carry; it stays what it was when this was asked."""
        job = self.job
        return PodRef(
            uid=self.uid, namespace=self.namespace, name=self.name, pod_group=job.key if job else NO_POD_GROUP
        )


class PodFacts(msgspec.Struct, eq=False, kw_only=True):
    """What the watch says about a pod, and what was decided since; a task's state is a function of it.

    To be changed only while the task is in no sum, as it is taken out by what was said of it when it was put
    in (:mod:`kai.snapshot.accounts`). Times are Unix seconds, 0 for never; names are empty for none.
    """

    key: str
    phase: str
    node_name: str
    deleted_at: float
    gated: bool
    group_key: PodGroupKey
    sub_group: str
    ours: bool
    utility: bool
    reservation: bool
    group_ids: tuple[GpuGroup, ...]
    nominated: str
    #: Since when its kubelet has it, as its status says (RFC 3339): read only where somebody asks.
    started: str | None = None
    #: The service account that it runs as.
    account: str = names.DEFAULT_SERVICE_ACCOUNT
    #: The shared devices that it holds by what is recorded of it, whatever its labels say.
    granted_ids: tuple[GpuGroup, ...] = ()
    #: Kept only where claims, volumes or NUMA need the object again.
    pod: Pod | None = None
    assumed_node: str = ""
    assumed_groups: tuple[GpuGroup, ...] = ()
    assumed_allotment: Allotment | None = None
    #: The scheduler decided that it goes; also once it is being deleted.
    evicting: bool = False

    @property
    def devices(self) -> tuple[GpuGroup, ...]:
        """The shared devices that it has or is about to get, as far as that is known.

        While it is being bound its labels may be those of an attempt that failed.
        """
        if self.assumed_groups and not self.node_name:
            return self.granted_ids or self.assumed_groups
        return self.granted_ids or self.group_ids or self.assumed_groups


class PodSet(msgspec.Struct, eq=False, kw_only=True):
    """A leaf of a pod group's tree: pods, and how many of them are needed.

    Counters go by the status of its ``tasks``, whether that is decided or tried. What is
    counted in ``pending``, ``gated`` or ``pipelined`` is counted in ``alive``, too.
    """

    name: str
    min_member: int
    constraint: TopologyConstraint | None = None
    parent: SubGroupSet | None = None
    tasks: dict[PodUid, Task] = {}
    alive: int = 0
    gated: int = 0
    pending: int = 0
    pipelined: int = 0
    active_allocated: int = 0
    active_used: int = 0
    succeeded: int = 0
    #: Tasks in order, or None when that has to be found out again.
    ordered: list[Task] | None = None
    #: No task before this position of ``ordered`` was pending when last looked at.
    cursor: int = 0

    def __repr__(self) -> str:
        return f"<PodSet {self.name}>"

    def sorted_tasks(self) -> list[Task]:
        """All tasks, best first.

        There are no ties, since the order ends with the uid. Sorted again only after a task came or went.
        """
        if self.ordered is None:
            self.ordered = sorted(self.tasks.values(), key=lambda task: task.order)
            self.cursor = 0
        return self.ordered

    @property
    def satisfied(self) -> bool:
        """Whether enough pods are placed; where none waits, those that are done count too."""
        done = 0 if self.pending else self.succeeded
        return self.active_allocated + done >= self.min_member

    @property
    def ready(self) -> bool:
        """Whether enough pods exist, or are done; those that are gated do not count yet."""
        return self.alive - self.gated + self.succeeded >= self.min_member

    @property
    def used_enough(self) -> bool:
        """Whether enough pods hold resources, those that are being moved included, or are done."""
        return self.active_used + self.succeeded >= self.min_member

    @property
    def count(self) -> int:
        """What subgroup order compares with :attr:`threshold`: pods that have a place, or will, and stay."""
        return self.active_allocated

    @property
    def threshold(self) -> int:
        """How many pods are needed, at least 0."""
        return self.min_member

    @property
    def elastic(self) -> bool:
        """Whether it has more pods than it needs, whatever state they are in."""
        return self.min_member < len(self.tasks)


class SubGroupSet(msgspec.Struct, eq=False, kw_only=True):
    """An inner node of a pod group's tree.

    What it says of itself it asks of its members, down to the leaves, each time. None of them is looked at
    twice: members are in one set only, and no set is below itself.
    """

    name: str
    constraint: TopologyConstraint | None = None
    parent: SubGroupSet | None = None
    #: None means all members.
    min_sub_group: int | None = None
    members: list[PodSet | SubGroupSet] = []
    #: Members below their minimum go first; off, they go by name alone.
    needy_first: bool = True

    def __repr__(self) -> str:
        return f"<SubGroupSet {self.name}>"

    @property
    def threshold(self) -> int:
        """How many members are needed: all, where it does not say."""
        return len(self.members) if self.min_sub_group is None else self.min_sub_group

    @property
    def count(self) -> int:
        """How many members are satisfied."""
        return sum(member.satisfied for member in self.members)

    @property
    def satisfied(self) -> bool:
        """Whether enough members are satisfied."""
        return self.count >= self.threshold

    @property
    def used_enough(self) -> bool:
        """Whether enough members hold enough."""
        return sum(member.used_enough for member in self.members) >= self.threshold

    @property
    def ready(self) -> bool:
        """Whether enough members are ready."""
        return sum(member.ready for member in self.members) >= self.threshold

    @property
    def elastic(self) -> bool:
        """Whether it has more members than it needs, or one of them more than that needs."""
        return self.threshold < len(self.members) or any(member.elastic for member in self.members)


class Past(NamedTuple):
    """What befell a pod group, and its object does not say, or not yet; Unix seconds, 0 for never."""

    last_start: float = 0.0
    last_eviction: float = 0.0
    stale_since: float = 0.0
    completing: bool = False


class Job(msgspec.Struct, eq=False, kw_only=True):
    """One pod group.

    Counters are those of all its pod sets together; pods in ``invalid`` are in none. ``pod_sets`` has the
    leaves of the tree below ``root`` by name, in the order of the specification. A change of what the tree is
    made of, or of who the group is (:attr:`JobFacts.shape`), or of how it stands makes another row with the
    same pods, and of the same group with the same :attr:`past`.
    """

    key: PodGroupKey
    namespace: str
    name: str
    uid: str
    queue: Queue
    priority: int
    preemptible: bool
    created: float
    root: SubGroupSet
    pod_sets: dict[str, PodSet]
    facts: JobFacts
    #: Pods that name a subgroup that does not exist, and hold nothing; those that do are of the first one.
    invalid: dict[PodUid, Task] = {}
    #: Why the tree cannot be built; such a group is never scheduled.
    error: str = ""
    #: Why nothing at all is decided about the group, for now: it is neither served nor anybody's victim.
    aside: Fault | None = None
    #: Others may take of it what it holds beyond its minimum (:mod:`kai.snapshot.core`), and no more.
    semi_preemptible: bool = False
    #: It names a priority of the system from outside of the system's namespaces: none of it is given a place.
    usurps: bool = False
    #: It is of another node pool, and has pods on nodes of this one: they count, and others get no place.
    elsewhere: bool = False
    #: Its queue is open to nobody of its namespace: what runs of it is the first to make room.
    unwelcome: bool = False
    stale_since: float = 0.0
    last_start: float = 0.0
    last_eviction: float = 0.0
    pending: int = 0
    active_allocated: int = 0
    active_used: int = 0
    succeeded: int = 0
    gated: int = 0
    #: A pod of it succeeded and is gone since, as far as this process saw it; others are left.
    completing: bool = False
    #: Changes with every change of a task's status; caches compare it.
    version: int = 0
    #: ``(version, simulation) -> tasks`` of the last question which tasks come next.
    next_tasks: dict[bool, tuple[int, list[Task]]] = {}
    #: ``(version, signature)`` of what waits, for searches.
    signature: tuple[int, tuple[object, ...]] | None = None
    single: PodSet | None = None
    has_constraint: bool = False

    def __repr__(self) -> str:
        return f"<Job {self.key}>"

    @property
    def past(self) -> Past:
        """What befell it."""
        return Past(self.last_start, self.last_eviction, self.stale_since, self.completing)

    def inherit(self, past: Past) -> None:
        """Let this have befallen it."""
        self.last_start, self.last_eviction, self.stale_since, self.completing = past

    @property
    def ready(self) -> bool:
        """Whether enough pods exist to satisfy the tree; nothing is decided about a group before."""
        return self.root.ready if self.single is None else self.single.ready

    @property
    def gang_satisfied(self) -> bool:
        """Whether enough pods hold resources, or are done, by the tree's own minimums.

        Pods that are being released count until they are gone.
        """
        single = self.single
        if single is not None and self.root.min_sub_group is None:
            return single.used_enough
        return self.root.used_enough

    @property
    def elastic(self) -> bool:
        """Whether some part of it has more pods, or parts, than it needs, whatever state they are in."""
        return self.root.elastic if self.single is None else self.single.elastic


class Standing(NamedTuple):
    """How a job stands to others; follows from its specification, namespace and queue, not from its pods."""

    priority: int
    preemptible: bool
    semi_preemptible: bool
    usurps: bool
    unwelcome: bool


class GroupTimes(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """When something happened to a pod group, as its annotations say: RFC 3339; None where they do not."""

    stale: str | None = None
    start: str | None = None
    eviction: str | None = None


NO_TIMES: Final = GroupTimes()


class JobFacts(msgspec.Struct, eq=False, kw_only=True):
    """What the watch says about a pod group, as far as rows depend on it."""

    queue: str
    priority_class: str
    preemptibility: str
    mark_unschedulable: bool
    preemption_delay: float
    staleness_grace: float | None
    #: It wants a single attempt, and had it in this node pool: its newest scheduling condition is about that.
    attempted: bool
    #: Whether it has scheduling conditions of any kind.
    conditions: bool
    times: GroupTimes
    #: What the tree is made of, and who the group is; a change of it makes another job.
    shape: tuple[object, ...]


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Queue:
    """One queue, or the account of what runs without one (not ``exists``).

    Sums of what is charged include those of all descendants. Quota, limit and weight are in thousandths of
    CPUs, bytes and whole GPUs; -1 is unlimited.
    """

    name: str
    row: int
    exists: bool = False
    display_name: str = ""
    uid: str = ""
    parent_name: str = ""
    priority: int = PRIORITY
    created: float = 0.0
    deserved: ResourceVector = (0.0, 0.0, 0.0)
    limit: ResourceVector = (0.0, 0.0, 0.0)
    weight: ResourceVector = (0.0, 0.0, 0.0)
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    parent: Queue | None = None
    children: list[Queue] = field(default_factory=list)
    #: Itself and its ancestors; empty where it or one of them does not exist, or it has too many.
    path: tuple[Queue, ...] = ()
    too_deep: bool = False
    allocated: Totals = field(default_factory=Totals)
    #: Of that what nobody may take.
    non_preemptible: Totals = field(default_factory=Totals)
    #: What is asked for beside that.
    pending: Totals = field(default_factory=Totals)
    #: Changes with every charge; caches compare it.
    version: int = 0
    jobs: dict[PodGroupKey, Job] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def requested(self) -> ResourceVector:
        """What it is charged and what is asked for beside that, in the units of its quota."""
        held, asked = self.allocated, self.pending
        return (
            held.cpu_millis + asked.cpu_millis,
            held.memory_bytes + asked.memory_bytes,
            (held.gpu_centi + asked.gpu_centi) / GPU_CENTI,
        )

    @property
    def leaf(self) -> bool:
        """Whether jobs may run in it: it is in the tree, and none is below it."""
        return self.exists and bool(self.path) and not self.children

    @property
    def yields(self) -> bool:
        """Whether what jobs in it hold may be taken: also that of those whose queue is gone."""
        return bool(self.path) and not self.children


def tasks_by_class(tasks: Iterable[Task]) -> dict[TaskClass, list[Task]]:
    """Tasks of a class together, classes and tasks in the order in which they come."""
    found: dict[TaskClass, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.cls, []).append(task)
    return found
