"""What of an object is beyond its bounds, asked before anything of it is taken in."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from kai.model import access, limits, names, subgroups
from kai.model.faults import OutOfBounds
from kai.model.limits import Limit
from kai.model.objects import ApiStruct, Node, Pod, PriorityClass, Queue, QueueResource, Topology
from kai.snapshot import devices
from kai.snapshot.kinds import Kind
from kai.snapshot.shapes import conform

_SYSTEM: Final = "system-"
#: By resource of a queue: what one of its units makes in the units in which sums are kept.
QUEUE_UNITS: Final = {"gpu": 1.0, "cpu": 1.0, "memory": 1e6}


def check(kind: Kind, obj: Any) -> None:
    """What an object says for itself; a pod is looked at together with its class.

    Raises:
        OutOfBounds: a field is beyond its bounds, or has not the type that it must have.
    """
    match kind:
        case Kind.POD_GROUP:
            subgroups.check(obj.spec)
        case Kind.QUEUE:
            check_queue(obj)
        case Kind.NODE:
            check_node(obj)
        case Kind.TOPOLOGY:
            check_topology(obj)
        case Kind.PRIORITY_CLASS:
            check_priority_class(obj)
        case _:
            devices.check(kind, obj)


def _at_most(limit: Limit) -> msgspec.Meta:
    return msgspec.Meta(max_length=limit.most)


# --- pods ----------------------------------------------------------------------------------------
class _Expression(ApiStruct):
    key: str = ""
    operator: str = ""
    values: Annotated[list[str], _at_most(limits.VALUES)] | None = None


_Expressions = Annotated[list[_Expression], _at_most(limits.EXPRESSIONS)]


class _Selector(ApiStruct):
    match_labels: Annotated[dict[str, str], _at_most(limits.EXPRESSIONS)] | None = None
    match_expressions: _Expressions | None = None


class _NodeTerm(ApiStruct):
    match_expressions: _Expressions | None = None
    match_fields: _Expressions | None = None


class _NodeTerms(ApiStruct):
    node_selector_terms: Annotated[list[_NodeTerm], _at_most(limits.NODE_TERMS)] | None = None


_Weight = Annotated[int, msgspec.Meta(ge=limits.WEIGHT.least, le=limits.WEIGHT.most)]


class _PreferredNode(ApiStruct):
    weight: _Weight = 0
    preference: _NodeTerm = msgspec.field(default_factory=_NodeTerm)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class _NodeAffinity(ApiStruct):
    required: _NodeTerms | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: Annotated[list[_PreferredNode], _at_most(limits.NODE_TERMS)] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class _PodTerm(ApiStruct):
    topology_key: str = ""
    label_selector: _Selector | None = None
    namespace_selector: _Selector | None = None
    namespaces: Annotated[list[str], _at_most(limits.VALUES)] | None = None
    match_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None
    mismatch_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None


class _PreferredPod(ApiStruct):
    weight: _Weight = 0
    pod_affinity_term: _PodTerm = msgspec.field(default_factory=_PodTerm)


class _PodAffinity(ApiStruct):
    required: Annotated[list[_PodTerm], _at_most(limits.POD_TERMS)] | None = msgspec.field(
        default=None, name=_REQUIRED
    )
    preferred: Annotated[list[_PreferredPod], _at_most(limits.POD_TERMS)] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class _Affinity(ApiStruct):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


_Skew = Annotated[int, msgspec.Meta(ge=limits.SKEW.least, le=limits.SKEW.most)]


class _Spread(ApiStruct):
    topology_key: str = ""
    max_skew: _Skew = 1
    min_domains: _Skew | None = None
    when_unsatisfiable: str = ""
    label_selector: _Selector | None = None
    match_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None


_Spreads = Annotated[list[_Spread], _at_most(limits.SPREAD)]


def check_scheduling(pod: Pod) -> None:
    """What decides where a pod may run, but for its claims.

    Raises:
        OutOfBounds: there is too much of it, or a part of it has not the type that it must have.
    """
    spec = pod.spec
    containers = len(spec.containers) + len(spec.init_containers or ())
    limits.CONTAINERS.check(containers)
    limits.SELECTOR.check_count(spec.node_selector)
    limits.TOLERATIONS.check_count(spec.tolerations)
    limits.VOLUMES.check_count(spec.volumes)
    if spec.priority:
        limits.POD_PRIORITY.check(spec.priority)
    if spec.affinity:
        conform(spec.affinity, _Affinity, field="spec.affinity")
    if spec.topology_spread_constraints:
        conform(spec.topology_spread_constraints, _Spreads, field="spec.topologySpreadConstraints")


# --- what administrators write -------------------------------------------------------------------
def check_topology(topology: Topology) -> None:
    """Raises OutOfBounds for too many levels."""
    limits.LEVELS.check_count(topology.spec.levels)


def check_priority_class(cls: PriorityClass) -> None:
    """Raises OutOfBounds for a value that Kubernetes gives to no class of such a name."""
    limit = limits.SYSTEM_PRIORITY if cls.metadata.name.startswith(_SYSTEM) else limits.PRIORITY
    limit.check(cls.value)


def check_node(node: Node) -> None:
    """Its taints, and what its labels say of its GPUs; its amounts are looked at where they are read."""
    limits.TAINTS.check_count(node.spec.taints)
    for limit, label in (
        (limits.NODE_GPU_MEMORY, names.GPU_MEMORY_LABEL),
        (limits.NODE_GPUS, names.GPU_COUNT_LABEL),
    ):
        text = node.labels.get(label)
        if text and text.isdecimal():
            limit.integer(text, f"metadata.labels[{label}]")


def check_queue(queue: Queue) -> None:
    """Raises OutOfBounds for numbers with which nobody can calculate."""
    spec = queue.spec
    if spec.priority is not None:
        limits.QUEUE_PRIORITY.check(spec.priority)
    if spec.access is not None:
        access.check_size(spec.access)
    if spec.resources is None:
        return
    for kind, scale in QUEUE_UNITS.items():
        amounts: QueueResource = getattr(spec.resources, kind)
        where, most = f"spec.resources.{kind}", limits.QUEUE_AMOUNT.most / scale
        for field, amount in (("quota", amounts.quota), ("limit", amounts.limit)):
            if not amount <= most:
                raise OutOfBounds(f"{where}.{field}", f"{amount:g}", f"at most {most:g}, or -1 for no bound")
        if not amounts.over_quota_weight <= limits.QUEUE_WEIGHT.most:
            raise limits.QUEUE_WEIGHT.exceeded(f"{amounts.over_quota_weight:g}", f"{where}.overQuotaWeight")
