"""What decisions read of an object: what is neither named here nor in a struct of ours is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kai.model.names import RESERVATION_CLAIM_PREFIX, SHARED_GPU_CONFIGMAP
from kai.model.objects import Json
from kai.model.rules.gpus import is_mig
from kai.model.rules.volumes import claim_name, is_ephemeral
from kai.replay import objects
from kai.replay.anonymous import meanings
from kai.snapshot.state import Kind

_META: Final = ("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")
#: Kinds of which nothing counts but that they are there.
_NAMES_ONLY: Final = frozenset({Kind.CONFIG_MAP, Kind.NAMESPACE})


def reduced(kind: Kind, obj: Json, *, scheduler_name: str) -> Json:
    """The object as plain JSON, as far as decisions read it.

    Raises:
        msgspec.ValidationError: a field has the wrong type; it is named.
        InvalidQuantity: an amount cannot be read.
    """
    read = objects.read(kind, obj, scheduler_name=scheduler_name)
    found = objects.without_nulls(msgspec.to_builtins(objects.shaped(kind, read)))
    meta = _metadata((obj.get("metadata") or {}) if isinstance(read, dict) else found["metadata"])
    if kind in _NAMES_ONLY:
        return {"metadata": meta}
    found["metadata"] = meta
    return _FURTHER[kind](found) if kind in _FURTHER else found


def _metadata(meta: Mapping[str, Any]) -> Json:
    found = {key: meta[key] for key in _META if meta.get(key)}
    annotations = {key: text for key, text in (meta.get("annotations") or {}).items() if _is_read(key)}
    owners = [_owner(each) for each in meta.get("ownerReferences") or () if each.get("controller")]
    made = meta.get("annotations") or {}
    return {
        **found,
        **({"annotations": annotations} if annotations else {}),
        **({"ownerReferences": owners} if owners else {}),
        **({_BY_BINDER: made[SHARED_GPU_CONFIGMAP]} if made.get(SHARED_GPU_CONFIGMAP) else {}),
    }


#: Where a pod keeps, while it is reduced, how ConfigMaps begin that come with its binding.
_BY_BINDER: Final = "configMapPrefix"


def _is_read(annotation: str) -> bool:
    return (
        annotation in meanings.ANNOTATIONS
        or annotation.startswith(RESERVATION_CLAIM_PREFIX)
        or is_mig(annotation)
    )


def _owner(reference: Mapping[str, Any]) -> Json:
    """Of owners only the uid counts, of pods that claims were made for."""
    uid = reference.get("uid", "")
    return {"uid": uid, "controller": True, "kind": "Pod", "apiVersion": "v1", "name": ""}


def _pod(pod: Json) -> Json:
    prefix, spec = pod["metadata"].pop(_BY_BINDER, ""), pod["spec"]
    name = pod["metadata"]["name"]
    spec["volumes"] = [_volume(each, name, prefix) for each in spec.get("volumes") or ()]
    for containers in (spec.get("containers"), spec.get("initContainers")):
        for container in containers or ():
            _environment(container, prefix)
    status = pod.get("status") or {}
    status["conditions"] = [_condition(each) for each in status.get("conditions") or ()]
    return pod


def _volume(volume: Json, pod: str, prefix: str) -> Json:
    """Claims by name, also those that are named after the pod, and ConfigMaps that must be there."""
    if (claim := claim_name(volume, pod)) is not None:
        own: Json = {"ephemeral": {}} if is_ephemeral(volume) else {}
        return {"name": volume.get("name", ""), "persistentVolumeClaim": {"claimName": claim}, **own}
    source = volume.get("configMap") or {}
    kept = {"configMap": _reference(source)} if _is_required(source, prefix) else {}
    return {"name": volume.get("name", ""), **kept}


def _environment(container: Json, prefix: str) -> None:
    wanted = [
        *((each.get("valueFrom") or {}).get("configMapKeyRef") for each in container.pop("env", None) or ()),
        *(each.get("configMapRef") for each in container.pop("envFrom", None) or ()),
    ]
    if found := [_reference(each) for each in wanted if each and _is_required(each, prefix)]:
        container["envFrom"] = [{"configMapRef": each} for each in found]


def _is_required(reference: Json, prefix: str) -> bool:
    name = reference.get("name", "")
    return bool(name) and not reference.get("optional") and not (prefix and name.startswith(prefix))


def _reference(source: Json) -> Json:
    return {"name": source.get("name", "")}


def _condition(condition: Json) -> Json:
    return {key: text for key, text in condition.items() if key in ("type", "status", "reason", "nodePool")}


def _pod_group(group: Json) -> Json:
    conditions = (group.get("status") or {}).get("schedulingConditions") or ()
    kept = [_condition(each) for each in conditions]
    return {**group, "status": {"schedulingConditions": kept} if kept else None}


def _without_status(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key != "status"}


def _node(node: Json) -> Json:
    status = node.get("status") or {}
    status["conditions"] = [_condition(each) for each in status.get("conditions") or ()]
    return node


def _volume_object(volume: Json) -> Json:
    spec = volume.get("spec") or {}
    if claim := spec.get("claimRef"):
        spec["claimRef"] = {key: claim[key] for key in ("name", "namespace", "uid") if key in claim}
    if csi := spec.get("csi"):
        spec["csi"] = {"driver": csi.get("driver", "")}
    phase = (volume.get("status") or {}).get("phase")
    return {**volume, "spec": spec, "status": {"phase": phase} if phase else {}}


def _of_spec(*path: str) -> Callable[[Json], Json]:
    def kept(obj: Json) -> Json:
        spec = obj.get("spec") or {}
        return {
            "metadata": obj["metadata"],
            "spec": {key: spec[key] for key in path if key in spec},
        }

    return kept


def _budget(obj: Json) -> Json:
    allowed = (obj.get("status") or {}).get("disruptionsAllowed")
    found = _of_spec("selector")(obj)
    return {**found, "status": {"disruptionsAllowed": allowed}} if allowed is not None else found


def _claim(claim: Json) -> Json:
    """What is handed on to drivers counts for nobody else."""
    claim["spec"].get("devices", {}).pop("config", None)
    allocation = (claim.get("status") or {}).get("allocation") or {}
    allocation.get("devices", {}).pop("config", None)
    claim.get("status", {}).pop("devices", None)
    return claim


def _device_class(obj: Json) -> Json:
    obj.get("spec", {}).pop("config", None)
    return obj


_FURTHER: Final[Mapping[Kind, Callable[[Json], Json]]] = {
    Kind.POD: _pod,
    Kind.POD_GROUP: _pod_group,
    Kind.QUEUE: _without_status,
    Kind.NODE: _node,
    Kind.PERSISTENT_VOLUME: _volume_object,
    Kind.PERSISTENT_VOLUME_CLAIM: _volume_object,
    Kind.CSI_DRIVER: _of_spec("storageCapacity"),
    Kind.POD_DISRUPTION_BUDGET: _budget,
    Kind.RESOURCE_CLAIM: _claim,
    Kind.DEVICE_CLASS: _device_class,
}
