"""Which kinds a decision depends on, and how each is watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector, Sink, Upserted
from kai.model.objects import ApiObject, Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.snapshot.state import Kind
from kai_scheduler.changes import ChangeQueue

_JSON_KINDS = {
    Kind.PERSISTENT_VOLUME: resources.PVS,
    Kind.PERSISTENT_VOLUME_CLAIM: resources.PVCS,
    Kind.STORAGE_CLASS: resources.STORAGE_CLASSES,
    Kind.CSI_DRIVER: resources.CSI_DRIVERS,
    Kind.CSI_NODE: resources.CSI_NODES,
    Kind.CSI_STORAGE_CAPACITY: resources.CSI_STORAGE_CAPACITIES,
    Kind.POD_DISRUPTION_BUDGET: resources.PDBS,
}
#: Served only by some clusters.
_OPTIONAL_KINDS = {
    Kind.RESOURCE_CLAIM: resources.RESOURCE_CLAIMS,
    Kind.RESOURCE_SLICE: resources.RESOURCE_SLICES,
    Kind.DEVICE_CLASS: resources.DEVICE_CLASSES,
    Kind.NODE_RESOURCE_TOPOLOGY: resources.NODE_RESOURCE_TOPOLOGIES,
}
#: Of these only names and labels are kept: their content may be large, and nobody here reads it.
_NAMES_ONLY = {Kind.CONFIG_MAP: resources.CONFIG_MAPS, Kind.NAMESPACE: resources.NAMESPACES}


def reflectors(
    client: KubeClient,
    changes: ChangeQueue,
    *,
    pods: Sink | None = None,
    config_maps: bool,
    namespace: str = "",
) -> Iterator[tuple[Reflector[Any], Sink]]:
    """All that is to be watched, each with where it goes. Pods of other schedulers count: they take room.

    ``pods`` is where those go, if not straight to the changes. Without ``config_maps`` no pod waits for those
    that it needs. Pods and pod groups are those of the ``namespace``; of all if it is empty.
    """
    # Failed pods hold nothing and are many where jobs retry; they leave the watch when they fail.
    yield (
        Reflector(client, resources.PODS, Pod, field_selector="status.phase!=Failed", namespace=namespace),
        changes.sink(Kind.POD) if pods is None else pods,
    )
    yield Reflector(client, resources.NODES, Node), changes.sink(Kind.NODE)
    yield Reflector(client, resources.QUEUES, Queue), changes.sink(Kind.QUEUE)
    yield (
        Reflector(client, resources.POD_GROUPS, PodGroup, namespace=namespace),
        changes.sink(Kind.POD_GROUP),
    )
    yield Reflector(client, resources.PRIORITY_CLASSES, PriorityClass), changes.sink(Kind.PRIORITY_CLASS)
    yield Reflector(client, resources.TOPOLOGIES, Topology), changes.sink(Kind.TOPOLOGY)
    for kind, res in _NAMES_ONLY.items():
        if kind is Kind.CONFIG_MAP and not config_maps:
            continue
        yield Reflector(client, res, ApiObject, metadata_only=True), _names_only(changes.sink(kind))
    for kind, res in _JSON_KINDS.items():
        yield Reflector(client, res, dict), changes.sink(kind)
    for kind, res in _OPTIONAL_KINDS.items():
        yield Reflector(client, res, dict, optional=True), changes.sink(kind)


def _names_only(sink: Sink) -> Sink:
    def reduced(change: Any) -> None:
        if isinstance(change, Upserted):
            meta = change.obj.metadata
            kept = {"metadata": {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels or {}}}
            # A changed content is no change to us.
            if not change.old_known or not meta.namespace:
                sink(Upserted(kept, change.old_known))
        else:
            sink(change)

    return reduced
