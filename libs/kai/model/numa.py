"""NodeResourceTopology (``topology.node.k8s.io/v1alpha2``): what a node's NUMA zones have."""

from __future__ import annotations

import msgspec

from kai.model.objects import ApiObject, ApiStruct


class TopologyAttribute(ApiStruct):
    """A named property, such as the kubelet's topology manager policy."""

    name: str = ""
    value: str = ""


class ZoneResource(ApiStruct):
    """How much of a resource a zone has, hands out, and has left."""

    name: str = ""
    capacity: str | int = "0"
    allocatable: str | int = "0"
    available: str | int = "0"


class Zone(ApiStruct):
    """One zone; those of type ``Node`` are NUMA nodes."""

    name: str = ""
    type: str = ""
    resources: list[ZoneResource] = msgspec.field(default_factory=list)


class NodeResourceTopology(ApiObject):
    """The topology of the node of the same name. ``topology_policies`` is what older exporters write."""

    attributes: list[TopologyAttribute] = msgspec.field(default_factory=list)
    topology_policies: list[str] = msgspec.field(default_factory=list)
    zones: list[Zone] = msgspec.field(default_factory=list)
