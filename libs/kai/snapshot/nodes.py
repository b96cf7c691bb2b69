"""What a Node object says, as a row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from kai.model import names, quantity
from kai.model.dra import DEVICE_CLASS_RESOURCE_PREFIX
from kai.model.objects import Node as NodeObject
from kai.model.quantity import integer
from kai.model.rules.gpus import is_gpu, shared_memory_mib
from kai.snapshot.kinds import StateParams
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS, ResourceTable
from kai.snapshot.rows import UNKNOWN_GPU_MEMORY_MIB, Node

#: What a node offers of a resource that only claims limit.
CLAIMED: Final = 1 << 40
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def describe(
    node: Node,
    obj: NodeObject,
    resources: ResourceTable,
    params: StateParams,
    *,
    dra_gpus: int,
    backed: Collection[str] = (),
) -> dict[int, int]:
    """Fill a row from an object; returns what the node offers, by column.

    What no device plugin offers of the ``backed`` resources is for resource claims to find.
    """
    labels = obj.labels
    amounts = resources.offer(obj.status.allocatable or {})
    node.object = obj
    memory = shared_memory_mib(labels)
    node.gpu_memory_mib, node.gpu_memory_known = memory or UNKNOWN_GPU_MEMORY_MIB, memory is not None
    count = integer(labels.get(names.GPU_COUNT_LABEL))
    node.gpu_count = amounts.get(GPU, 0) if count is None or count < 0 else count
    node.dra_gpus = dra_gpus
    mig = labels.get(params.mig_worker_label_key)
    has_mig = any(amounts.get(column, 0) > 0 for column, _ in resources.mig)
    node.mig = has_mig if mig is None else mig.lower() in ("true", "1", "t")
    node.mig_strategy = labels.get(names.MIG_STRATEGY_LABEL, "")
    node.ready = not unavailable(obj)
    node.cpu_worker = params.cpu_worker_label_key in labels
    node.gpu_worker = params.gpu_worker_label_key in labels
    offered = amounts.get(GPU, 0)
    of_claims = frozenset(filter(is_gpu, backed)) if dra_gpus else frozenset()
    node.askable_gpus = offered or (dra_gpus if of_claims else 0)
    node.gpu_names = plugin_gpu_names(obj) | of_claims
    if dra_gpus:
        amounts[GPU] = amounts.get(GPU, 0) + dra_gpus
    node.gpus = amounts.get(GPU, 0)
    for column in map(resources.column, backed):
        if column != GPU and amounts.get(column, 0) <= 0:
            amounts[column] = CLAIMED
    return amounts


def plugin_gpu_names(obj: NodeObject) -> frozenset[str]:
    """Under which names device plugins offer whole GPUs."""
    amounts = obj.status.allocatable or {}
    return frozenset([name for name, text in amounts.items() if is_gpu(name) and quantity.parse(text) > 0])


def backed_resources(classes: Iterable[dict[str, Any]], resources: ResourceTable) -> tuple[str, ...]:
    """Extended resources behind which there is a device class.

    In order, each once. Names not seen before get columns.
    """
    found: set[str] = set()
    for each in classes:
        found.add(DEVICE_CLASS_RESOURCE_PREFIX + each["metadata"]["name"])
        if name := (each.get("spec") or {}).get("extendedResourceName"):
            found.add(str(name))
    columns = {name: resources.offered(name) for name in sorted(found)}
    others = {CPU, MEMORY, PODS, *(column for column, _ in resources.mig)}
    return tuple([name for name, column in columns.items() if column not in others])


def unavailable(obj: NodeObject) -> str:
    """Why a node takes no pods; empty if it does."""
    if obj.spec.unschedulable:
        return "node is unschedulable"
    ready = False
    for condition in obj.status.conditions or ():
        if condition.type == "Ready":
            ready = condition.status == "True"
        elif condition.type in _PRESSURES and condition.status != "False":
            return f"node has {condition.type}"
    return "" if ready else "node is not ready"


def same(old: NodeObject, new: NodeObject) -> bool:
    """Whether nothing differs that a row depends on: heartbeats do not count."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and unavailable(old) == unavailable(new)
        and old.metadata.uid == new.metadata.uid
    )
