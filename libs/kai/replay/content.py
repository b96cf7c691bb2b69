"""What a snapshot file leaves out: what may be secret or large, and no decision depends on."""

from __future__ import annotations

from typing import Final

from kai.model.objects import Json
from kai.snapshot.state import Kind

#: As the original's caches keep of them.
_OF_CONTAINER: Final = ("name", "ports", "env", "envFrom", "resources", "volumeMounts", "restartPolicy")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


def without_content(kind: str, obj: Json) -> Json:
    """The object without contents of ConfigMaps, commands, environments and who wrote which field."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    obj = {**obj, "metadata": meta}
    if kind == Kind.CONFIG_MAP:
        return {key: value for key, value in obj.items() if key not in ("data", "binaryData")}
    if kind == Kind.POD:
        spec = obj["spec"]
        listed = {key: [_container(each) for each in spec[key]] for key in _CONTAINERS if spec.get(key)}
        return {**obj, "spec": spec | listed}
    return obj


def _container(container: Json) -> Json:
    kept: Json = {key: container[key] for key in _OF_CONTAINER if key in container}
    if environment := kept.get("env"):
        kept["env"] = [each for each in environment if _refers(each)]
    return kept


def _refers(variable: Json) -> bool:
    """Whether it takes its value from a ConfigMap, without which the pod cannot start."""
    return bool((variable.get("valueFrom") or {}).get("configMapKeyRef"))
