"""API objects, as far as the product reads them.

``msgspec`` decodes watch events straight into these structs; fields that nobody reads are never
built. All are keyword-only, immutable by convention and untracked by the garbage collector.
Quantities stay strings here: whoever needs a number parses it once, through
:mod:`kai.model.quantity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

#: A JSON object that is carried and compared but not interpreted.
Json = dict[str, Any]
ResourceList = dict[str, str]
#: When the image of a container is pulled.
PullPolicy = Literal["Always", "IfNotPresent", "Never"]

if TYPE_CHECKING:
    WrittenAmounts = ResourceList
else:
    # Of custom resources the API server keeps quantities as they were written, be it as numbers.
    WrittenAmounts = dict[str, str | int]


class ApiStruct(msgspec.Struct, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all API structs: camelCase on the wire, snake_case here."""


class OwnerReference(ApiStruct):
    """The object that this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct):
    """Identity and bookkeeping common to all objects. Times are RFC 3339 strings."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class ApiObject(ApiStruct):
    """Anything with metadata."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels, empty if there are none; do not modify."""
        return self.metadata.labels or _NOTHING

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations, empty if there are none; do not modify."""
        return self.metadata.annotations or _NOTHING


_NOTHING: dict[str, str] = {}


# --- pods --------------------------------------------------------------------------------------
class ResourceRequirements(ApiStruct):
    """``resources`` of a container."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[Json] | None = None


class ContainerPort(ApiStruct):
    """A port of a container; only host ports matter to scheduling."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    container_port: int = 0
    protocol: str = "TCP"


class Container(ApiStruct):
    """A container or init container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    env: list[Json] | None = None
    env_from: list[Json] | None = None


class Toleration(ApiStruct):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodResourceClaim(ApiStruct):
    """A named claim of a pod: an existing object or one made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ApiStruct):
    """What scheduling and grouping read of a pod's specification."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    node_selector: dict[str, str] | None = None
    affinity: Json | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[Json] | None = None
    scheduling_gates: list[Json] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    service_account_name: str = ""
    volumes: list[Json] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool | None = None
    runtime_class_name: str | None = None
    resources: ResourceRequirements | None = None


class Condition(ApiStruct):
    """A status condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ResourceClaimStatus(ApiStruct):
    """Which object a templated claim of the pod became."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerStatus(ApiStruct):
    """What a kubelet promised to a container, and what it has: not what the spec says while it is resized."""

    name: str = ""
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None


class PodStatus(ApiStruct):
    """What scheduling reads of a pod's status."""

    phase: str = ""
    qos_class: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    resource_claim_statuses: list[ResourceClaimStatus] | None = None
    extended_resource_claim_status: Json | None = None


class Pod(ApiObject):
    """core/v1 Pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# --- nodes -------------------------------------------------------------------------------------
class Taint(ApiStruct):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiStruct):
    """``spec`` of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(ApiStruct):
    """``status`` of a node."""

    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    conditions: list[Condition] | None = None


class Node(ApiObject):
    """core/v1 Node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- queues and pod groups ---------------------------------------------------------------------
class QueueResource(ApiStruct):
    """One resource of a queue. GPU in devices, CPU in millicores, memory in 10^6 bytes; -1 is unlimited."""

    quota: float = 0
    limit: float = 0
    over_quota_weight: float = 0


class QueueResources(ApiStruct):
    """The three resources that are shared out among queues."""

    gpu: QueueResource = msgspec.field(default_factory=QueueResource)
    cpu: QueueResource = msgspec.field(default_factory=QueueResource)
    memory: QueueResource = msgspec.field(default_factory=QueueResource)


class LabelRequirement(ApiStruct):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(ApiStruct):
    """Which labels are meant; an empty one means all."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class QueueAccess(ApiStruct):
    """Who may use a queue: whoever any of these admits; an empty one admits nobody."""

    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    service_accounts: list[str] | None = None
    groups: list[str] | None = None


class QueueSpec(ApiStruct):
    """``spec`` of a Queue."""

    display_name: str = ""
    parent_queue: str = ""
    priority: int | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None
    resources: QueueResources | None = None
    access: QueueAccess | None = None


class _Sums(ApiStruct):
    """Amounts that a status tells, in plain Kubernetes quantities; texts, however they were written."""

    allocated: WrittenAmounts | None = None
    allocated_non_preemptible: WrittenAmounts | None = None
    requested: WrittenAmounts | None = None

    def __post_init__(self) -> None:
        for amounts in (self.allocated, self.allocated_non_preemptible, self.requested):
            for resource, amount in (amounts or _NOTHING).items():
                if not isinstance(amount, str):
                    amounts[resource] = str(amount)


class QueueStatus(_Sums):
    """``status`` of a Queue."""

    child_queues: list[str] | None = None
    conditions: list[Json] | None = None


class Queue(ApiObject):
    """scheduling.run.ai/v2 Queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus | None = None


class TopologyConstraint(ApiStruct):
    """Where the pods of a (sub)group must or should be together. Levels are node label keys or aliases."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(ApiStruct):
    """A node of a pod group's tree, given flat with ``parent``."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(ApiStruct):
    """``spec`` of a PodGroup."""

    min_member: int | None = None
    min_sub_group: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: list[SubGroup] | None = None
    mark_unschedulable: bool | None = None
    scheduling_backoff: int | None = None
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None


class SchedulingCondition(ApiStruct):
    """Why a pod group could not be scheduled in a node pool."""

    type: str = ""
    node_pool: str = ""
    reason: str = ""
    message: str = ""
    reasons: list[Json] | None = None
    last_transition_time: str | None = None
    status: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")


class PodGroupResources(_Sums):
    """``status.resourcesStatus`` of a PodGroup."""


class PodGroupSchedulingState(ApiStruct):
    """What the scheduler says of a PodGroup."""

    core_pods: list[str] | None = None


class PodGroupStatus(ApiStruct):
    """``status`` of a PodGroup."""

    conditions: list[Json] | None = None
    scheduling_conditions: list[SchedulingCondition] | None = None
    resources_status: PodGroupResources | None = None
    scheduling_state: PodGroupSchedulingState | None = None


class PodGroup(ApiObject):
    """scheduling.run.ai/v2alpha2 PodGroup."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus | None = None


class PriorityClass(ApiObject):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False


class TopologyLevel(ApiStruct):
    """One level of a Topology, named by a node label."""

    node_label: str = ""
    alias: str = ""


class TopologySpec(ApiStruct):
    """Levels from coarse to fine."""

    levels: list[TopologyLevel] = []


class Topology(ApiObject):
    """kai.scheduler/v1alpha1 Topology."""

    spec: TopologySpec = msgspec.field(default_factory=TopologySpec)
