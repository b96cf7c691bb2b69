"""Objects of ``resource.k8s.io`` in the versions in which clusters serve them.

Everything else knows ``v1`` alone. ``v1beta2`` looks the same; in ``v1beta1`` the properties of a device are
one level deeper, and those of an exact request one level higher. What an allocation looks like never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kai.model.objects import Json

GROUP: Final = "resource.k8s.io"
#: The newest first.
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
#: What clusters may lack whose newest version is an older one, with the release that brought it.
LACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": (),
    "v1beta2": ("resources with a device class behind them (1.34)",),
    "v1beta1": (
        "alternatives of a request, partitions and taints of devices (1.33)",
        "resources with a device class behind them (1.34)",
    ),
}


def lacking(version: str) -> str:
    """What to tell of a cluster whose newest version is this one; empty where nothing is missing."""
    missing = LACKS.get(version, ())
    if not missing:
        return ""
    return f"the API server has {GROUP}/{version} at most, perhaps without {', '.join(missing)}"


def newest(obj: Json, *, kind: str, version: str) -> Json:
    """An object of a version as one of ``v1``; not changed itself, and parts of it may be shared.

    Objects in lists do not say of what kind and version they are.
    """
    return _renamed(_converted(obj, kind, _NEWER) if version == "v1beta1" else obj, VERSIONS[0])


def older(obj: Json, *, kind: str, version: str) -> Json:
    """An object of ``v1`` as one of another version; the reverse of :func:`newest`."""
    return _renamed(_converted(obj, kind, _OLDER) if version == "v1beta1" else obj, version)


def spread_device(device: Json) -> Json:
    """A device of ``v1beta1`` with its properties where ``v1`` has them; one of ``v1`` as it is."""
    basic = _object(device.get("basic"))
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def wrapped_request(request: Json) -> Json:
    """A request of ``v1beta1`` with its properties where ``v1`` has them; one of ``v1`` as it is.

    One with alternatives has an empty class of its own there.
    """
    if request.get("firstAvailable"):
        return {key: request[key] for key in ("name", "firstAvailable") if key in request}
    if "deviceClassName" not in request:
        return request
    exactly = {key: request[key] for key in sorted(set(request) - {"name"})}
    return {**{key: request[key] for key in ("name",) if key in request}, "exactly": exactly}


def _folded_device(device: Json) -> Json:
    return {"name": device.get("name", ""), "basic": {key: device[key] for key in device if key != "name"}}


def _bare_request(request: Json) -> Json:
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        return request
    return {**{key: value for key, value in request.items() if key != "exactly"}, **exactly}


_Change = Callable[[Json], Json]
#: How devices and requests change on the way.
_NEWER: Final[tuple[_Change, _Change]] = (spread_device, wrapped_request)
_OLDER: Final[tuple[_Change, _Change]] = (_folded_device, _bare_request)


def _converted(obj: Json, kind: str, changes: tuple[_Change, _Change]) -> Json:
    device, request = changes
    match kind:
        case "ResourceSlice":
            return _changed(obj, ("spec",), "devices", device)
        case "ResourceClaim":
            return _changed(obj, ("spec", "devices"), "requests", request)
        case "ResourceClaimTemplate":
            return _changed(obj, ("spec", "spec", "devices"), "requests", request)
    return obj


def _changed(obj: Json, path: tuple[str, ...], field: str, change: _Change) -> Json:
    """A copy in which each element of the list below a path is changed; what is no object stays."""
    if path:
        below = obj.get(path[0])
        return {**obj, path[0]: _changed(below, path[1:], field, change)} if isinstance(below, dict) else obj
    found = obj.get(field)
    if not isinstance(found, list):
        return obj
    return {**obj, field: [change(each) if isinstance(each, dict) else each for each in found]}


def _renamed(obj: Json, version: str) -> Json:
    return {**obj, "apiVersion": f"{GROUP}/{version}"} if "apiVersion" in obj else obj


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
