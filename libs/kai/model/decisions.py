"""What a scheduling cycle decides, as plain values.

The engine returns a :class:`CycleResult`; the scheduler service sends its binds to the binders,
carries out its evictions, and publishes its outcomes and shares for the controllers.
What a cycle makes thousands of are structs, which are made several times faster than frozen dataclasses;
those that are part of no circle are not walked by the garbage collector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from kai.model.faults import Fault
from kai.model.ids import NO_POD_GROUP, GpuGroup, PodGroupKey, PodUid

#: CPU in thousandths, memory in bytes and GPUs in devices; or of each the fraction of some whole.
ResourceVector: TypeAlias = tuple[float, float, float]
#: Where each stands in a vector.
CPU: Final = 0
MEMORY: Final = 1
GPU: Final = 2


class ResourceType(IntEnum):
    """What a pod receives; the values are the wire's."""

    REGULAR = 0
    FRACTION = 1
    MIG_INSTANCE = 2

    @property
    def annotation(self) -> str:
        """The value of the annotation ``received-resource-type``."""
        return ("Regular", "Fraction", "MigInstance")[self]


class PodRef(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod, and the group that it belongs to (``namespace/name``; empty where it has none)."""

    uid: PodUid
    namespace: str
    name: str
    pod_group: PodGroupKey = NO_POD_GROUP


class Allotment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found for a pod on its node beside room and GPUs, as its bind carries it."""

    #: ``[{"name": claim name in the pod, "allocation": AllocationResult}]``.
    claims: tuple[dict[str, Any], ...] = ()
    #: ``{"allocation", "deviceRequests", "containerMappings"}`` of the claim for its extended resources.
    extended_claim: dict[str, Any] | None = None
    #: ``[{"zone": id, "amount": {resource: quantity}}]``.
    numa: tuple[dict[str, Any], ...] = ()


#: Nothing was looked for, or nothing is needed.
NO_ALLOTMENT: Final = Allotment()


class BindDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One pod is to be bound to one node."""

    pod: PodRef
    node: str
    resource_type: ResourceType = ResourceType.REGULAR
    #: Devices granted, and the portion of each (1.0 for whole devices, 0 devices for CPU pods).
    gpu_count: int = 0
    gpu_portion: float = 1.0
    #: Shared devices by group id, one for each device; empty for whole GPUs.
    gpu_groups: tuple[GpuGroup, ...] = ()
    #: Of each shared device, where the pod asked for memory; 0 where it asked for a portion.
    gpu_memory_mib: int = 0
    #: These three are the pod's :class:`Allotment`.
    claim_allocations: tuple[dict[str, Any], ...] = ()
    extended_claim: dict[str, Any] | None = None
    numa_zones: tuple[dict[str, Any], ...] = ()
    node_pool: str = ""


class Eviction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod is to be deleted to make room, or because its gang is broken."""

    pod: PodRef
    action: str
    message: str
    #: Pods evicted by the same decision, this one included.
    gang_size: int = 1
    #: The pod group (``namespace/name``) that profits; empty for a stale gang.
    evictor: PodGroupKey = NO_POD_GROUP


class Nomination(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod waits for resources that are being released on a node."""

    pod: PodRef
    node: str


class Ended(StrEnum):
    """What of an action's searches time put an end to."""

    #: All that were still to come: the action's own time was spent.
    ACTION = "action"
    #: The same, to give way to somebody who waits.
    TURNS = "turns"
    #: The search for one pod group: its time was spent.
    SEARCH = "search"
    #: The same, to give way.
    GAVE_WAY = "gave way"
    #: One of the ways in which such a search looks for victims.
    GENERATOR = "generator"


class Cut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place at which time, and nothing else, ended searches of an action.

    ``pod_group`` (namespace/name) is whose search it was, or would have been the next.
    """

    action: str
    pod_group: PodGroupKey
    ended: Ended
    #: For :attr:`Ended.GENERATOR` which it was.
    generator: str = ""


class Reason(StrEnum):
    """Why a pod group does not run."""

    POD_SCHEDULING_ERRORS = "PodSchedulingErrors"
    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
    MIN_RUNTIME = "MinRuntimeNotElapsed"
    EVICTION_REFUSED = "EvictionRefused"
    QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
    NOT_ENOUGH_RESOURCES = "Not enough resources for the workload"
    INVALID_POD_GROUP = "InvalidPodGroup"
    NOT_READY = "NotReady"
    PRIORITY_CLASS_DOES_NOT_EXIST = "PriorityClassDoesNotExist"
    QUEUE_ACCESS_DENIED = "QueueAccessDenied"
    PRIORITY_CLASS_DENIED = "PriorityClassDenied"


class Explanation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One reason, with its message and, for queue checks, the amounts behind it (JSON as in the CRD)."""

    reason: str
    message: str
    details: dict[str, Any] | None = None


class Outcome(IntEnum):
    """How a pod group left the cycle; the values are the wire's."""

    #: Nothing of it is pending.
    SETTLED = 0
    #: Binds were decided this cycle.
    PLACED = 1
    #: It waits for resources being released.
    PIPELINED = 2
    #: Tried, and does not fit.
    UNSCHEDULABLE = 3
    #: Fewer pods exist than its minimum.
    NOT_READY = 4


class PodGroupOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the cycle found about one pod group. Published only when it differs from the cycle before."""

    pod_group: PodGroupKey
    outcome: Outcome
    #: Of the group that was looked at: one that was made anew under its name is another.
    uid: str = ""
    message: str = ""
    explanations: tuple[Explanation, ...] = ()
    #: Pod key -> message, for the pods that could not be placed.
    pod_messages: dict[str, str] = {}
    #: Pods whose subgroup does not exist.
    invalid_pods: tuple[str, ...] = ()
    #: How the group falls short of what it needs since it lost pods; empty if it does not.
    staleness: str = ""
    #: Annotations to set (value) or to remove (None): stale, last start, last eviction.
    annotations: dict[str, str | None] = {}
    #: Whether conditions may be written: false while any of its pods is actively allocated.
    write_condition: bool = True
    #: All conditions of this group are to be removed.
    clear_conditions: bool = False
    #: Of a semi-preemptible group the names of the pods that nobody may take, in order.
    core_pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """One queue in the division; an amount of -1 is unlimited."""

    queue: str
    display_name: str
    parent: str
    priority: int
    deserved: ResourceVector
    limit: ResourceVector
    over_quota_weight: ResourceVector
    fair_share: ResourceVector
    allocated: ResourceVector
    allocated_non_preemptible: ResourceVector
    requested: ResourceVector
    usage: ResourceVector


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedGroup:
    """A pod group (namespace/name) whose turn comes in the next cycle, and what puts it before the next one
    of its queue: priority, minimum, age, name, or the name of a plugin; empty for the last.
    """

    pod_group: str
    queue: str
    priority: int
    ahead_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Everything one cycle decided, in the order in which it was decided."""

    binds: tuple[BindDecision, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    nominations: tuple[Nomination, ...] = ()
    outcomes: tuple[PodGroupOutcome, ...] = ()
    #: Pod groups that are gone since the cycle before: deleted, of another node pool, or made anew, of which
    #: ``outcomes`` tell. What was told of them before counts no longer.
    forgotten: tuple[PodGroupKey, ...] = ()
    shares: tuple[QueueShare, ...] = ()
    #: Objects that the cycle went on without, whether new or not.
    faults: tuple[Fault, ...] = ()
    #: Those that this cycle failed over, each with the end of the traceback.
    setbacks: tuple[tuple[Fault, str], ...] = ()
    #: Unix seconds at which time alone may change what would be decided (minimum runtime, delays,
    #: staleness). 0: unknown, so soon, while anything is pending; infinite: only when told anything new.
    next_due: float = 0.0
    #: The same, whatever is pending: before it, nothing but what is told anew changes what is decided, once a
    #: cycle decides what the one before it did.
    alarm: float = math.inf
    #: Searches stopped for what came meanwhile; they go on in the next cycle, which should come soon.
    gave_way: bool = False
    #: Where time ended searches: with these given, the same cycle decides the same.
    cuts: tuple[Cut, ...] = ()
    #: Seconds by phase: ``open``, each action by name, ``close``.
    timings: dict[str, float] = field(default_factory=dict)
    #: Seconds spent on opening the session, by plugin.
    plugin_timings: dict[str, float] = field(default_factory=dict)
    #: Seconds spent on closing it, by plugin; none of those that have nothing to do then.
    plugin_closings: dict[str, float] = field(default_factory=dict)
    #: What is divided among queues: that of ready nodes, less what pods of other schedulers hold.
    capacity: ResourceVector = (0.0, 0.0, 0.0)
    #: How many nodes there are.
    nodes: int = 0
    #: How many of those that take pods have 0, 1, 2 … GPUs of which nothing is given away.
    nodes_by_free: tuple[int, ...] = ()
    #: Seconds of each search for victims, by action, generator and result.
    searches: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    #: Counters by (metric name, label values) to be added to the scheduler's metrics.
    counters: dict[tuple[str, ...], float] = field(default_factory=dict)
