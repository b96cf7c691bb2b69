"""What can be told about a cluster, and which part of it belongs to a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kai.model import names


class Kind(StrEnum):
    """What can be applied. Kinds without a struct in :mod:`kai.model.objects` are plain JSON objects."""

    POD = "pods"
    NODE = "nodes"
    QUEUE = "queues"
    POD_GROUP = "podGroups"
    PRIORITY_CLASS = "priorityClasses"
    TOPOLOGY = "topologies"
    CONFIG_MAP = "configMaps"
    PERSISTENT_VOLUME = "persistentVolumes"
    PERSISTENT_VOLUME_CLAIM = "persistentVolumeClaims"
    STORAGE_CLASS = "storageClasses"
    CSI_DRIVER = "csiDrivers"
    CSI_NODE = "csiNodes"
    CSI_STORAGE_CAPACITY = "csiStorageCapacities"
    RESOURCE_CLAIM = "resourceClaims"
    RESOURCE_SLICE = "resourceSlices"
    DEVICE_CLASS = "deviceClasses"
    NODE_RESOURCE_TOPOLOGY = "nodeResourceTopologies"
    POD_DISRUPTION_BUDGET = "podDisruptionBudgets"
    NAMESPACE = "namespaces"

    @property
    def kubernetes(self) -> str:
        """The kind as manifests name it."""
        return _KUBERNETES[self]


_KUBERNETES: Final = {
    Kind.POD: "Pod",
    Kind.NODE: "Node",
    Kind.QUEUE: "Queue",
    Kind.POD_GROUP: "PodGroup",
    Kind.PRIORITY_CLASS: "PriorityClass",
    Kind.TOPOLOGY: "Topology",
    Kind.CONFIG_MAP: "ConfigMap",
    Kind.PERSISTENT_VOLUME: "PersistentVolume",
    Kind.PERSISTENT_VOLUME_CLAIM: "PersistentVolumeClaim",
    Kind.STORAGE_CLASS: "StorageClass",
    Kind.CSI_DRIVER: "CSIDriver",
    Kind.CSI_NODE: "CSINode",
    Kind.CSI_STORAGE_CAPACITY: "CSIStorageCapacity",
    Kind.RESOURCE_CLAIM: "ResourceClaim",
    Kind.RESOURCE_SLICE: "ResourceSlice",
    Kind.DEVICE_CLASS: "DeviceClass",
    Kind.NODE_RESOURCE_TOPOLOGY: "NodeResourceTopology",
    Kind.POD_DISRUPTION_BUDGET: "PodDisruptionBudget",
    Kind.NAMESPACE: "Namespace",
}


_LAST: Final = (Kind.NODE, Kind.POD_GROUP, Kind.POD)
#: What others are charged to comes before them, so that everything is put into its sums once.
_LOADING: Final = (*(kind for kind in Kind if kind not in _LAST), *_LAST)


def by_kind(objects: Iterable[tuple[Kind, Any]]) -> list[tuple[Kind, list[Any]]]:
    """Objects of each kind together, in the order in which many are best taken in."""
    found: dict[Kind, list[Any]] = {}
    for kind, obj in objects:
        found.setdefault(kind, []).append(obj)
    return sorted(found.items(), key=lambda item: _LOADING.index(item[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateParams:
    """Which part of the cluster belongs to this scheduler, and how it is read."""

    scheduler_name: str = names.SCHEDULER_NAME
    node_pool_label_key: str = names.NODE_POOL_LABEL
    #: Value of that label. Empty means objects without it, unless the key is empty too.
    node_pool: str = ""
    queue_label_key: str = names.QUEUE_LABEL
    reservation_app: str = names.RESERVATION_APP
    #: Where reservation and scaling pods are; elsewhere their labels say nothing. Empty: not known.
    reservation_namespace: str = names.RESERVATION_NAMESPACE
    scaling_namespace: str = names.SCALE_ADJUST_NAMESPACE
    #: Of the installation.
    namespace: str = names.NAMESPACE
    restrict_node_scheduling: bool = False
    #: Labels of nodes: of those that are for pods without GPUs, and for pods with them, if it is restricted;
    #: and of those that have MIG devices, or by their value have none.
    cpu_worker_label_key: str = names.CPU_WORKER_LABEL
    gpu_worker_label_key: str = names.GPU_WORKER_LABEL
    mig_worker_label_key: str = names.MIG_WORKER_LABEL
    full_hierarchy_fairness: bool = True
    stuck_in_releasing_seconds: float = 120.0

    def in_pool(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is of the node pool that is scheduled here.

        Without a label key all objects are; where the pool has no name, those without the label are.
        """
        key = self.node_pool_label_key
        return not key or labels.get(key, "") == self.node_pool

    @property
    def pool_name(self) -> str:
        """What users call the node pool."""
        return self.node_pool or names.DEFAULT_NODE_POOL

    @property
    def system_namespaces(self) -> frozenset[str]:
        """Where priorities of the system may be used."""
        return frozenset(
            (names.SYSTEM_NAMESPACE, self.namespace, self.reservation_namespace, self.scaling_namespace)
        ) - {""}


def object_key(obj: Any) -> str:
    """``namespace/name`` of a struct or a JSON object."""
    if isinstance(obj, dict):
        meta = obj.get("metadata") or {}
        namespace = meta.get("namespace")
        return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
    return str(obj.key)


def object_uid(obj: Any) -> str:
    """The uid of a struct or a JSON object; empty if it says none."""
    if isinstance(obj, dict):
        return str((obj.get("metadata") or {}).get("uid") or "")
    return str(obj.metadata.uid)
