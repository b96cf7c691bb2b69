"""Objects as the caches of schedulers hold them, made such as an API server gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kai.model import dra, dra_forms, quantity
from kai.model.numa import NodeResourceTopology
from kai.model.objects import Json, Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.snapshot import storage
from kai.snapshot.state import Kind


class _Other(msgspec.Struct):
    spec: Json = {}
    status: Json = {}


_STRUCTS: Final[Mapping[Kind, type[Any]]] = {
    Kind.POD: Pod,
    Kind.NODE: Node,
    Kind.QUEUE: Queue,
    Kind.POD_GROUP: PodGroup,
    Kind.PRIORITY_CLASS: PriorityClass,
    Kind.TOPOLOGY: Topology,
}
#: These stay plain JSON, and must look so.
_SHAPES: Final[Mapping[Kind, type[Any]]] = {
    Kind.RESOURCE_CLAIM: dra.ResourceClaim,
    Kind.RESOURCE_SLICE: dra.ResourceSlice,
    Kind.DEVICE_CLASS: dra.DeviceClass,
    Kind.NODE_RESOURCE_TOPOLOGY: NodeResourceTopology,
    **storage.SHAPES,
}


def read(kind: Kind, obj: Any, *, scheduler_name: str) -> Any:
    """What to tell the state; null, which Go writes for empty slices and maps, is as absent.

    Raises:
        msgspec.ValidationError: a field has the wrong type; it is named.
        InvalidQuantity: an amount cannot be read.
    """
    obj = without_nulls(obj)
    match kind:
        case Kind.POD:
            _name_scheduler(obj, scheduler_name)
        case Kind.POD_GROUP:
            _drop_empty_constraint(obj)
        case Kind.RESOURCE_SLICE:
            _unfold_devices(obj)
        case Kind.RESOURCE_CLAIM:
            _wrap_requests(obj)
    if kind in _STRUCTS:
        return msgspec.convert(obj, _STRUCTS[kind])
    for amount in _amounts(msgspec.convert(obj, _SHAPES.get(kind, _Other))):
        quantity.parse(amount)
    return obj


def stored(kind: Kind, data: bytes) -> Any:
    """What was told to a state and encoded as JSON, as it was told; raises msgspec's errors."""
    shape = _STRUCTS.get(kind)
    return msgspec.json.decode(data) if shape is None else msgspec.json.decode(data, type=shape)


def _amounts(found: Any) -> Iterable[str]:
    """The quantities in what stays plain JSON."""
    match found:
        case storage.Volume(spec=spec):
            asked = spec.resources.requests if spec.resources else None
            return (*(spec.capacity or {}).values(), *(asked or {}).values())
        case storage.StorageCapacity():
            return (found.capacity or "0", found.maximum_volume_size or "0")
    return ()


def shaped(kind: Kind, obj: Any) -> Any:
    """What was read, as a struct that has what decisions read of such an object, where there is one."""
    return obj if kind in _STRUCTS else msgspec.convert(obj, _SHAPES[kind]) if kind in _SHAPES else obj


def without_nulls(value: Any) -> Any:
    """A copy in which what is null is absent."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def stand_in_volumes(claims: Iterable[Any]) -> list[Json]:
    """Volumes that all nodes reach, for the claims of a file that holds none."""
    names = {_object(_object(claim).get("spec")).get("volumeName") for claim in claims}
    return [{"metadata": {"name": name}} for name in sorted(name for name in names if isinstance(name, str))]


def _name_scheduler(pod: Json, scheduler_name: str) -> None:
    """Of a pod that has succeeded caches keep little more than its group, for which it still counts."""
    if _object(pod.get("status")).get("phase") == "Succeeded":
        _object(pod.setdefault("spec", {})).setdefault("schedulerName", scheduler_name)


def _drop_empty_constraint(group: Json) -> None:
    """Go writes structs that are empty."""
    spec = _object(group.get("spec"))
    if spec.get("topologyConstraint") == {}:
        del spec["topologyConstraint"]


def _unfold_devices(slice_: Json) -> None:
    """Devices as ``resource.k8s.io/v1`` has them, of whatever version the file is."""
    spec = _object(slice_.get("spec"))
    if devices := _objects(spec.get("devices")):
        spec["devices"] = [dra_forms.spread_device(device) for device in devices]


def _wrap_requests(claim: Json) -> None:
    """Requests as ``resource.k8s.io/v1`` has them, of whatever version the file is."""
    devices = _object(_object(claim.get("spec")).get("devices"))
    if requests := _objects(devices.get("requests")):
        devices["requests"] = [dra_forms.wrapped_request(request) for request in requests]


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
