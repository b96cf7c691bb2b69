"""Volumes and their kin, which stay plain JSON: the structure of all that decisions read of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kai.model.objects import ApiStruct, Json, LabelRequirement, LabelSelector
from kai.snapshot.kinds import Kind


class VolumeResources(ApiStruct):
    """What a claim asks for."""

    requests: dict[str, str] | None = None


class NodeSelectorTerm(ApiStruct, kw_only=True):
    """Nodes that a volume can be reached from."""

    match_expressions: list[LabelRequirement] | None = None
    match_fields: list[LabelRequirement] | None = None


class NodeSelectorTerms(ApiStruct):
    """Any of them will do."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class VolumeNodeAffinity(ApiStruct):
    """Nodes that a volume can be reached from."""

    required: NodeSelectorTerms | None = None


class VolumeSpec(ApiStruct, kw_only=True):
    """Of a volume, or of a claim of one."""

    capacity: dict[str, str] | None = None
    resources: VolumeResources | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    access_modes: list[str] | None = None
    claim_ref: Json | None = None
    csi: Json | None = None
    node_affinity: VolumeNodeAffinity | None = None
    selector: LabelSelector | None = None


class Volume(ApiStruct):
    """A volume, or a claim of one."""

    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: Json | None = None


class StorageCapacity(ApiStruct, kw_only=True):
    """What room a driver has for volumes of a class."""

    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None


class TopologySelectorTerm(ApiStruct):
    """Nodes where volumes of a class may be made."""

    match_label_expressions: list[LabelRequirement] | None = None


class StorageClass(ApiStruct, kw_only=True):
    """How volumes of a class are made, and when."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class CsiDriverSpec(ApiStruct, kw_only=True):
    """What a driver tells of itself."""

    storage_capacity: bool | None = None


class CsiDriver(ApiStruct):
    """A driver of volumes."""

    spec: CsiDriverSpec | None = None


class VolumeSlots(ApiStruct):
    """How many volumes of a driver a node takes."""

    count: int | None = None


class CsiNodeDriver(ApiStruct):
    """A driver on a node."""

    name: str
    allocatable: VolumeSlots | None = None


class CsiNodeSpec(ApiStruct):
    """The drivers on a node."""

    drivers: list[CsiNodeDriver] | None = None


class CsiNode(ApiStruct):
    """A node, as drivers of volumes see it."""

    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


SHAPES: Final[Mapping[Kind, Any]] = {
    Kind.PERSISTENT_VOLUME: Volume,
    Kind.PERSISTENT_VOLUME_CLAIM: Volume,
    Kind.STORAGE_CLASS: StorageClass,
    Kind.CSI_STORAGE_CAPACITY: StorageCapacity,
    Kind.CSI_DRIVER: CsiDriver,
    Kind.CSI_NODE: CsiNode,
}
