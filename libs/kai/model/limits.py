"""How large what comes from outside may be: one table, and all that is enforced is read from it.

An amount that no cluster has, a list that no person writes or a text of thousands of digits is a mistake or
an attack. Every reader of such a field asks its :class:`Limit`; schemas and webhooks state the same numbers,
and ``docs/limits.md`` lists them. The bounds are far beyond what sane use needs, and low enough for all sums
to stay exact: 2^53 is where floats stop counting by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, NamedTuple

from kai.model import quantity
from kai.model.faults import OutOfBounds

_INT32: Final = 2**31 - 1
#: Longer texts are no numbers of anything.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The bounds of one field. ``kind`` is Kubernetes' (``Pod``), ``field`` the path that users write.

    ``unit`` says what is counted; for lists and maps their items are. ``enforced`` tells where else than at
    intake: by a schema of ours (``schema``), a webhook of ours (``webhook``) or Kubernetes itself.
    """

    kind: str
    field: str
    most: int
    least: int = 0
    unit: str = ""
    enforced: tuple[str, ...] = ()

    @property
    def bound(self) -> str:
        """What would be taken, as in "it must be …"."""
        unit = f" {self.unit}" if self.unit else ""
        return f"from {self.least} to {self.most}{unit}" if self.least else f"at most {self.most}{unit}"

    def within(self, value: int | Decimal) -> bool:
        """Whether a number is taken."""
        return self.least <= value <= self.most

    def check(self, value: Any, field: str = "") -> None:
        """Raise :class:`OutOfBounds` for a number that is beyond; ``field`` says more exactly where."""
        if not self.least <= value <= self.most:
            raise self.exceeded(value, field)

    def check_count(self, items: Sized | None, field: str = "") -> None:
        """The same for a list or map with too many items."""
        if items is not None and len(items) > self.most:
            raise self.exceeded(len(items), field)

    def clamp(self, value: int | Decimal) -> int:
        """The whole number within the bounds that is nearest to the value."""
        return int(min(max(Decimal(value), Decimal(self.least)), Decimal(self.most)))

    def integer(self, text: str, field: str = "") -> int:
        """The number that a text says.

        Raises:
            OutOfBounds: it says none, or one that is beyond.
        """
        if not _INTEGER.fullmatch(text) or not self.within(int(text)):
            raise self.exceeded(text, field)
        return int(text)

    def quantity(self, text: str, field: str = "", *, scale: int = 1) -> int:
        """The amount that a quantity says, rounded up, in units of which ``scale`` make one.

        Raises:
            OutOfBounds: it says none, or one that is beyond.
        """
        try:
            amount = quantity.parse(text) * scale
        except quantity.InvalidQuantity:
            raise self.exceeded(text, field) from None
        if not self.within(amount):
            raise self.exceeded(text, field)
        return int(amount.to_integral_value(rounding=ROUND_CEILING))

    def nearest(self, text: str, *, scale: int = 1) -> int:
        """The amount within the bounds that is nearest to what a quantity says; the least if it says none."""
        try:
            return self.clamp(quantity.parse(text) * scale)
        except quantity.InvalidQuantity:
            return self.least

    def exceeded(self, value: Any, field: str = "") -> OutOfBounds:
        """The error about a value."""
        return OutOfBounds(field or self.field, value, self.bound)


class SelectorLimits(NamedTuple):
    """The bounds of a label selector."""

    labels: Limit
    expressions: Limit
    values: Limit


def _of_selector(kind: str, field: str) -> SelectorLimits:
    """Those of a selector that is held against one object after the other."""
    expressions = f"{field}.matchExpressions"
    return SelectorLimits(
        Limit(kind=kind, field=f"{field}.matchLabels", most=32, unit="labels"),
        Limit(kind=kind, field=expressions, most=32, unit="expressions"),
        Limit(kind=kind, field=f"{expressions}[].values", most=1024, unit="values in one expression"),
    )


_REQUESTS: Final = "spec.containers[].resources.requests"
_SUBGROUPS: Final = "spec.subGroups"
_CLAIM: Final = "spec.devices"

# --- pods --------------------------------------------------------------------------------------
CONTAINERS: Final = Limit(
    kind="Pod", field="spec.containers, spec.initContainers", most=512, enforced=("webhook",)
)
RESOURCES: Final = Limit(
    kind="Pod", field=_REQUESTS, most=64, unit="resources in all containers", enforced=("webhook",)
)
AMOUNT: Final = Limit(
    kind="Pod",
    field=f"{_REQUESTS}[*]",
    most=2**53,
    unit="(CPU and other resources in thousandths, memory and storage in bytes)",
    enforced=("webhook",),
)
WHOLE_GPUS: Final = Limit(
    kind="Pod", field=f"{_REQUESTS}[nvidia.com/gpu]", most=2**20, unit="devices", enforced=("webhook",)
)
GPU_MEMORY: Final = Limit(
    kind="Pod",
    field="metadata.annotations[gpu-memory]",
    least=1,
    most=2**31,
    unit="MiB",
    enforced=("webhook",),
)
GPU_FRACTION: Final = Limit(
    kind="Pod",
    field="metadata.annotations[gpu-fraction]",
    most=1,
    unit="GPU, and above 0",
    enforced=("webhook",),
)
SHARED_DEVICES: Final = Limit(
    kind="Pod",
    field="metadata.annotations[gpu-fraction-num-devices]",
    least=1,
    most=1024,
    unit="devices",
    enforced=("webhook",),
)
MIG_DEVICES: Final = Limit(
    kind="Pod",
    field="metadata.annotations[nvidia.com/mig-*]",
    most=1024,
    unit="devices",
    enforced=("webhook",),
)
GPU_GROUPS: Final = Limit(
    kind="Pod", field="metadata.labels[runai-gpu-group/*]", most=1024, unit="labels", enforced=("webhook",)
)
#: Kubernetes promises to bear 150,000 pods in a whole cluster.
GROUP_PODS: Final = Limit(
    kind="Pod",
    field="metadata.annotations[pod-group-name]",
    most=100_000,
    unit="pods that name one group",
)
TASK_PRIORITY: Final = Limit(
    kind="Pod",
    field="metadata.labels[kai.scheduler/task-priority]",
    least=-(2**31),
    most=_INT32,
    enforced=("webhook",),
)
SELECTOR: Final = Limit(kind="Pod", field="spec.nodeSelector", most=256, unit="labels", enforced=("webhook",))
TOLERATIONS: Final = Limit(kind="Pod", field="spec.tolerations", most=512, enforced=("webhook",))
NODE_TERMS: Final = Limit(
    kind="Pod", field="spec.affinity.nodeAffinity", most=512, unit="terms of one kind", enforced=("webhook",)
)
#: Each is held against all nodes.
NODE_REQUIREMENTS: Final = Limit(
    kind="Pod",
    field="spec.affinity.nodeAffinity",
    most=256,
    unit="expressions, in all terms together",
    enforced=("webhook",),
)
#: Each costs something whenever another pod is looked at.
POD_TERMS: Final = Limit(
    kind="Pod",
    field="spec.affinity: podAffinity, podAntiAffinity",
    most=64,
    unit="terms of one kind",
    enforced=("webhook",),
)
#: Each of them, too.
TERM_REQUIREMENTS: Final = Limit(
    kind="Pod",
    field="spec.affinity: podAffinity, podAntiAffinity; spec.topologySpreadConstraints",
    most=256,
    unit="labels and expressions, in the selectors of all terms together",
    enforced=("webhook",),
)
EXPRESSIONS: Final = Limit(
    kind="Pod", field="matchExpressions", most=512, unit="in one selector", enforced=("webhook",)
)
VALUES: Final = Limit(
    kind="Pod",
    field="matchExpressions[].values",
    most=16384,
    unit="values in one expression",
    enforced=("webhook",),
)
SPREAD: Final = Limit(kind="Pod", field="spec.topologySpreadConstraints", most=64, enforced=("webhook",))
SKEW: Final = Limit(
    kind="Pod", field="spec.topologySpreadConstraints[].maxSkew", least=1, most=_INT32, enforced=("webhook",)
)
WEIGHT: Final = Limit(
    kind="Pod",
    field="spec.affinity: weight of a preferred term",
    most=100,
    enforced=("Kubernetes",),
)
#: Kubernetes knows no ranges of ports: who forwards calls or video lists some hundred one by one. More
#: belong to the network of the host, where nobody needs to list them.
HOST_PORTS: Final = Limit(
    kind="Pod",
    field="spec.containers[].ports",
    most=1024,
    unit="ports of the host, in all containers together",
    enforced=("webhook",),
)
VOLUMES: Final = Limit(kind="Pod", field="spec.volumes", most=1024, enforced=("webhook",))
#: Volumes may name as many, each its own.
CONFIG_MAPS: Final = Limit(
    kind="Pod",
    field="spec.volumes[].configMap, spec.containers[].env, spec.containers[].envFrom",
    most=1024,
    unit="config maps that must exist, in all together",
    enforced=("webhook",),
)
POD_CLAIMS: Final = Limit(kind="Pod", field="spec.resourceClaims", most=256, enforced=("webhook",))
POD_PRIORITY: Final = Limit(
    kind="Pod", field="spec.priority", least=-(2**31), most=_INT32, enforced=("Kubernetes",)
)

# --- pod groups --------------------------------------------------------------------------------
SUBGROUPS: Final = Limit(
    kind="PodGroup",
    field=_SUBGROUPS,
    most=1000,
    unit="subgroups",
    enforced=("schema", "webhook"),
)
SUBGROUP_DEPTH: Final = Limit(
    kind="PodGroup",
    field=f"{_SUBGROUPS}[].parent",
    most=16,
    unit="levels",
    enforced=("webhook",),
)
MIN_MEMBER: Final = Limit(
    kind="PodGroup",
    field="spec.minMember",
    most=1_000_000,
    unit="pods",
    enforced=("schema", "webhook"),
)
MIN_SUBGROUP: Final = Limit(
    kind="PodGroup",
    field="spec.minSubGroup",
    most=1_000_000,
    unit="subgroups",
    enforced=("schema", "webhook"),
)

# --- queues, topologies ------------------------------------------------------------------------
QUEUE_AMOUNT: Final = Limit(
    kind="Queue",
    field="spec.resources.*.quota, spec.resources.*.limit",
    least=-1,
    most=2**62,
    unit="GPUs, thousandths of a CPU, or bytes of memory",
    enforced=("schema",),
)
QUEUE_WEIGHT: Final = Limit(
    kind="Queue", field="spec.resources.*.overQuotaWeight", most=2**31, enforced=("schema",)
)
QUEUE_PRIORITY: Final = Limit(
    kind="Queue", field="spec.priority", least=-(2**31), most=_INT32, enforced=("schema",)
)
QUEUE_DEPTH: Final = Limit(
    kind="Queue", field="spec.parentQueue", most=32, unit="levels", enforced=("webhook",)
)
ACCESS_NAMESPACES: Final = Limit(
    kind="Queue", field="spec.access.namespaces", most=1024, unit="namespaces", enforced=("schema", "webhook")
)
ACCESS_ACCOUNTS: Final = Limit(
    kind="Queue",
    field="spec.access.serviceAccounts",
    most=1024,
    unit="service accounts",
    enforced=("schema", "webhook"),
)
ACCESS_GROUPS: Final = Limit(
    kind="Queue", field="spec.access.groups", most=1024, unit="groups", enforced=("schema", "webhook")
)
ACCESS_LABELS: Final = Limit(
    kind="Queue",
    field="spec.access.namespaceSelector.matchLabels",
    most=64,
    unit="labels",
    enforced=("schema", "webhook"),
)
ACCESS_EXPRESSIONS: Final = Limit(
    kind="Queue",
    field="spec.access.namespaceSelector.matchExpressions",
    most=64,
    unit="expressions",
    enforced=("schema", "webhook"),
)
ACCESS_VALUES: Final = Limit(
    kind="Queue",
    field="spec.access.namespaceSelector.matchExpressions[].values",
    most=1024,
    unit="values",
    enforced=("schema", "webhook"),
)
LEVELS: Final = Limit(kind="Topology", field="spec.levels", most=16, unit="levels", enforced=("schema",))

# --- nodes -------------------------------------------------------------------------------------
ALLOCATABLE: Final = Limit(
    kind="Node",
    field="status.allocatable[*]",
    most=2**53,
    unit="(CPU and other resources in thousandths, memory and storage in bytes)",
)
NODE_GPUS: Final = Limit(
    kind="Node",
    field="status.allocatable[nvidia.com/gpu]",
    most=2**20,
    unit="devices",
)
NODE_GPU_MEMORY: Final = Limit(
    kind="Node",
    field="metadata.labels[nvidia.com/gpu.memory]",
    most=2**51,
    unit="MiB, or bytes from 2^20 on",
)
TAINTS: Final = Limit(kind="Node", field="spec.taints", most=512, unit="taints")
NODE_RESOURCES: Final = Limit(kind="Node", field="status.allocatable", most=1024, unit="resources")
ZONES: Final = Limit(kind="NodeResourceTopology", field="zones", most=16, unit="zones")
ZONE_RESOURCES: Final = Limit(
    kind="NodeResourceTopology", field="zones[].resources", most=256, unit="resources"
)
ZONE_AMOUNT: Final = Limit(
    kind="NodeResourceTopology",
    field="zones[].resources[].allocatable, .available",
    most=2**53,
    unit="(CPU in thousandths, everything else in its own unit)",
)

# --- dynamic resource allocation ---------------------------------------------------------------
CLAIM_COUNT: Final = Limit(
    kind="ResourceClaim", field=f"{_CLAIM}.requests[].exactly.count", most=1024, unit="devices"
)
CLAIM_REQUESTS: Final = Limit(
    kind="ResourceClaim", field=f"{_CLAIM}.requests", most=32, unit="requests", enforced=("Kubernetes",)
)
ALTERNATIVES: Final = Limit(
    kind="ResourceClaim",
    field=f"{_CLAIM}.requests[].firstAvailable",
    most=8,
    unit="alternatives",
    enforced=("Kubernetes",),
)
CONSTRAINTS: Final = Limit(
    kind="ResourceClaim", field=f"{_CLAIM}.constraints", most=32, enforced=("Kubernetes",)
)
CONFIGURATIONS: Final = Limit(
    kind="ResourceClaim", field=f"{_CLAIM}.config", most=32, enforced=("Kubernetes",)
)
SELECTORS: Final = Limit(
    kind="ResourceClaim", field="selectors", most=32, unit="selectors", enforced=("Kubernetes",)
)
DEVICE_TOLERATIONS: Final = Limit(
    kind="ResourceClaim", field="tolerations", most=16, enforced=("Kubernetes",)
)
RESULTS: Final = Limit(
    kind="ResourceClaim",
    field="status.allocation.devices.results",
    most=32,
    unit="devices",
    enforced=("Kubernetes",),
)
CONSUMERS: Final = Limit(
    kind="ResourceClaim", field="status.reservedFor", most=256, unit="pods", enforced=("Kubernetes",)
)
EXPRESSION_LENGTH: Final = Limit(
    kind="ResourceClaim",
    field="selectors[].cel.expression",
    most=10 * 1024,
    unit="characters",
    enforced=("Kubernetes",),
)
EXPRESSION_LOOPS: Final = Limit(
    kind="ResourceClaim",
    field="selectors[].cel.expression",
    most=4,
    unit="loops and bindings (all, exists, exists_one, map, filter, cel.bind)",
    enforced=("Kubernetes",),
)
EXPRESSIONS_LENGTH: Final = Limit(
    kind="ResourceClaim",
    field="selectors[*].cel.expression",
    most=32 * 1024,
    unit="characters, all expressions of a claim together",
)
EXPRESSION_COST: Final = Limit(
    kind="ResourceClaim",
    field="selectors[*].cel.expression",
    most=1_000_000,
    unit="units of estimated cost, all expressions of a claim together",
    enforced=("Kubernetes",),
)
DEVICES: Final = Limit(
    kind="ResourceSlice", field="spec.devices", most=128, unit="devices", enforced=("Kubernetes",)
)
ATTRIBUTES: Final = Limit(
    kind="ResourceSlice", field="spec.devices[].attributes", most=32, enforced=("Kubernetes",)
)
CAPACITIES: Final = Limit(
    kind="ResourceSlice", field="spec.devices[].capacity", most=32, enforced=("Kubernetes",)
)
COUNTER_SETS: Final = Limit(
    kind="ResourceSlice", field="spec.sharedCounters", most=32, enforced=("Kubernetes",)
)
COUNTERS: Final = Limit(
    kind="ResourceSlice", field="counters", most=256, unit="counters", enforced=("Kubernetes",)
)
DEVICE_TAINTS: Final = Limit(
    kind="ResourceSlice", field="spec.devices[].taints", most=16, enforced=("Kubernetes",)
)
BINDING_CONDITIONS: Final = Limit(
    kind="ResourceSlice",
    field="spec.devices[].bindingConditions, bindingFailureConditions",
    most=4,
    enforced=("Kubernetes",),
)
DEVICE_AMOUNT: Final = Limit(
    kind="ResourceSlice", field="counters[*].value, capacity[*].value", most=2**63, enforced=("Kubernetes",)
)

# --- priority classes --------------------------------------------------------------------------
PRIORITY: Final = Limit(
    kind="PriorityClass",
    field="value",
    least=-(2**31),
    most=1_000_000_000,
    unit="for classes of users",
    enforced=("Kubernetes",),
)
SYSTEM_PRIORITY: Final = Limit(
    kind="PriorityClass",
    field="value",
    least=-(2**31),
    most=2_000_001_000,
    unit="for those whose name begins with system-",
    enforced=("Kubernetes",),
)

# --- volumes, budgets --------------------------------------------------------------------------
STORAGE: Final = Limit(kind="PersistentVolume", field="spec.capacity[storage]", most=2**63, unit="bytes")
VOLUME_TERMS: Final = Limit(
    kind="PersistentVolume",
    field="spec.nodeAffinity.required.nodeSelectorTerms",
    most=256,
    unit="terms",
)
VOLUME_EXPRESSIONS: Final = Limit(
    kind="PersistentVolume",
    field="spec.nodeAffinity.required.nodeSelectorTerms[].matchExpressions, .matchFields",
    most=32,
    unit="expressions",
)
#: A volume may name each node that reaches it.
VOLUME_VALUES: Final = Limit(
    kind="PersistentVolume",
    field="spec.nodeAffinity.required.nodeSelectorTerms[].matchExpressions[].values",
    most=16384,
    unit="values in one expression",
)
CLAIM_SELECTOR: Final = _of_selector("PersistentVolumeClaim", "spec.selector")
ALLOWED_TERMS: Final = Limit(kind="StorageClass", field="allowedTopologies", most=256, unit="terms")
ALLOWED_EXPRESSIONS: Final = Limit(
    kind="StorageClass", field="allowedTopologies[].matchLabelExpressions", most=32, unit="expressions"
)
ALLOWED_VALUES: Final = Limit(
    kind="StorageClass",
    field="allowedTopologies[].matchLabelExpressions[].values",
    most=16384,
    unit="values in one expression",
)
CAPACITY_NODES: Final = _of_selector("CSIStorageCapacity", "nodeTopology")
SLOTS: Final = Limit(kind="CSINode", field="spec.drivers[].allocatable.count", most=_INT32, unit="volumes")
DISRUPTIONS: Final = Limit(
    kind="PodDisruptionBudget", field="status.disruptionsAllowed", most=_INT32, unit="pods"
)
BUDGET_SELECTOR: Final = _of_selector("PodDisruptionBudget", "spec.selector")


def too_deep(parent: str) -> OutOfBounds:
    """The error about a queue whose parent is on the last level already, or below it."""
    above = QUEUE_DEPTH.most - 2
    return OutOfBounds(QUEUE_DEPTH.field, parent, f"a queue with at most {above} queues above it")


def table() -> Iterator[Limit]:
    """All limits, in the order of this module."""
    for each in globals().values():
        if isinstance(each, Limit):
            yield each
        elif isinstance(each, SelectorLimits):
            yield from each
