"""Bodies in Kubernetes' protobuf encoding, which ``kubectl create`` and other typed clients send: read only.

Answers are always JSON; such clients accept it.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import resources as package_files
from typing import Any, Final

import msgspec

from kai_local.apiserver.errors import Obj, bad_request

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_META: Final = "apimachinery.pkg.apis.meta.v1."
_SCALARS: Final = frozenset({"string", "bytes", "int32", "int64", "bool", "double", "float"})
#: kinds whose messages are not in the package that their group's name suggests
_PACKAGES: Final = {"DeleteOptions": _META + "DeleteOptions", "Scale": "api.autoscaling.v1.Scale"}

Fields = dict[int, tuple[str, str]]


@cache
def _table() -> dict[str, Fields]:
    data = (package_files.files("kai_local.apiserver.schemas") / "wire_fields.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[int, tuple[str, str]]])


def decode(data: bytes) -> Obj:
    """The object in a protobuf body. Raises ApiFailure (400) when it is none, or of a kind not known."""
    if not data.startswith(_MAGIC):
        raise bad_request("the body does not start with the magic number of Kubernetes' protobuf encoding")
    try:
        envelope = dict(_wire(data[len(_MAGIC) :]))
        type_meta = dict(_wire(envelope[1]))
        api_version, kind = type_meta[1].decode(), type_meta[2].decode()
        obj = _message(_message_name(api_version, kind), envelope.get(2, b""))
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise bad_request(f"the protobuf body cannot be read: {error!r}") from error
    return {"kind": kind, "apiVersion": api_version, **obj}


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] or "core"
    return _PACKAGES.get(kind, f"api.{package}.{version}.{kind}")


def _message(name: str, data: bytes) -> Any:
    fields = _table()[name]
    obj: Obj = {}
    for number, value in _wire(data):
        if number not in fields:
            continue
        key, kind = fields[number]
        if kind.startswith("[]"):
            obj.setdefault(key, []).append(_value(kind[2:], value))
        elif kind.startswith("{}"):
            entry = dict(_wire(value))
            obj.setdefault(key, {})[entry.get(1, b"").decode()] = _value(kind[2:], entry.get(2, b""))
        elif not key:
            obj.update(_value(kind, value))
        else:
            scalar = _value(kind.removeprefix("*"), value)
            if kind not in _SCALARS or scalar:
                obj[key] = scalar
    return _special(name, obj)


def _special(name: str, obj: Obj) -> Any:
    """Types whose JSON form is not an object."""
    match name.rpartition(".")[2]:
        case "Time" | "MicroTime" if name.startswith(_META):
            return _time(obj, micro=name.endswith("MicroTime"))
        case "Duration" if name.startswith(_META):
            return f"{obj.get('duration', 0) / 1e9:g}s"
        case "Quantity":
            return obj.get("string", "0")
        case "IntOrString":
            return obj.get("strVal", "") if obj.get("type") else obj.get("intVal", 0)
        case "RawExtension" | "FieldsV1":
            raw = base64.b64decode(obj.get("raw") or obj.get("Raw") or "")
            return msgspec.json.decode(raw) if raw else None
        case "ExtraValue" | "Verbs":
            return obj.get("items", [])
    return obj


def _time(obj: Obj, *, micro: bool) -> str | None:
    if not obj.get("seconds"):
        return None
    moment = datetime.fromtimestamp(obj["seconds"], UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{obj.get('nanos', 0) // 1000:06}Z" if micro else f"{text}Z"


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "bool":
            return bool(value)
        case "int32" | "int64":
            return value - (1 << 64) if value >> 63 else value
        case "double":
            return struct.unpack("<d", value)[0]
        case "float":
            return struct.unpack("<f", value)[0]
    return _message(kind, value)


def _wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values of one message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        else:
            length = {1: 8, 5: 4}[wire_type]
        if position + length > len(data):
            raise ValueError("a field is longer than the body")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
