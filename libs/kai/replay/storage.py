"""Volumes and their kin, which stay plain JSON, as far as decisions read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kai.model.objects import Json
from kai.snapshot.state import Kind

_Amounts = dict[str, str]


class _Shape(msgspec.Struct, rename="camel"):
    pass


class _Resources(_Shape):
    requests: _Amounts = {}


class _NodeAffinity(_Shape):
    required: Json = {}


class _VolumeSpec(_Shape):
    capacity: _Amounts = {}
    resources: _Resources = msgspec.field(default_factory=_Resources)
    access_modes: list[str] = []
    volume_name: str = ""
    storage_class_name: str = ""
    claim_ref: Json = {}
    csi: Json = {}
    node_affinity: _NodeAffinity = msgspec.field(default_factory=_NodeAffinity)


class _Volume(_Shape):
    """A volume, or a claim of one."""

    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)
    status: Json = {}


class _StorageClass(_Shape):
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: list[Json] = []


class _Capacity(_Shape):
    storage_class_name: str = ""
    capacity: str = "0"
    maximum_volume_size: str = "0"
    node_topology: Json = {}


class _Slots(_Shape):
    count: int = 0


class _Driver(_Shape):
    name: str
    allocatable: _Slots = msgspec.field(default_factory=_Slots)


class _Drivers(_Shape):
    drivers: list[_Driver] = []


class _CsiNode(_Shape):
    spec: _Drivers = msgspec.field(default_factory=_Drivers)


SHAPES: Final[Mapping[Kind, Any]] = {
    Kind.PERSISTENT_VOLUME: _Volume,
    Kind.PERSISTENT_VOLUME_CLAIM: _Volume,
    Kind.STORAGE_CLASS: _StorageClass,
    Kind.CSI_STORAGE_CAPACITY: _Capacity,
    Kind.CSI_NODE: _CsiNode,
}


def amounts(found: Any) -> tuple[str, ...]:
    """The quantities in what was read by one of the shapes."""
    match found:
        case _Volume(spec=spec):
            return (*spec.capacity.values(), *spec.resources.requests.values())
        case _Capacity():
            return (found.capacity, found.maximum_volume_size)
    return ()
