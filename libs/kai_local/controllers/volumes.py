"""Volumes and claims: bound to each other, made on demand, released when no longer claimed.

A volume here is an entry in the books and nothing more; a simulated container does not look inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kai.kube import resources
from kai.model.objects import ApiObject, Json
from kai.model.rules.volumes import SELECTED_NODE, is_kept_for, storage_bytes, suits
from kai_local.controllers.actions import Action, Create, Delete, Patch
from kai_local.controllers.objects import Workload, object_reference
from kai_local.parts.objects import LocalPod

PROVISIONER = "kai.local/volumes"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


class StorageClass(ApiObject):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"

    @property
    def waits(self) -> bool:
        """Whether a volume is chosen only when a pod that uses the claim has a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


def reconcile_claim(
    claim: Workload, volumes: Iterable[Workload], classes: Mapping[str, StorageClass]
) -> list[Action]:
    """Bind a claim to the volume meant for it, to one that suits, or to a new one."""
    if claim.terminating or claim.status.get("phase") == "Bound":
        return []
    there = list(volumes)
    named = claim.spec.get("volumeName")
    meant = [v for v in there if (v.metadata.name == named if named else _refers_to(v, claim))]
    if meant or named:
        return _bind(claim, meant[0]) if meant else []
    storage_class = classes.get(str(claim.spec.get("storageClassName") or ""))
    if storage_class is not None and storage_class.waits and SELECTED_NODE not in claim.annotations:
        return []
    if storage_class is None or not storage_class.waits:
        free = [v for v in there if not v.spec.get("claimRef") and not v.terminating]
        suiting = [v for v in free if suits(v.spec, v.labels, claim.spec)]
        if suiting:
            return _bind(claim, min(suiting, key=_size))
    if storage_class is None or storage_class.provisioner != PROVISIONER:
        return []
    return [Create(resources.PVS, "", _new_volume(claim, storage_class))]


def reconcile_volume(volume: Workload, claims: Mapping[str, Workload]) -> list[Action]:
    """Say whether a volume is to be had, and remove one that was made for a claim that is gone."""
    if volume.terminating:
        return []
    reference = volume.spec.get("claimRef")
    name = volume.metadata.name
    if not reference:
        return _phase(volume, "Available")
    claim = claims.get(f"{reference.get('namespace')}/{reference.get('name')}")
    if not reference.get("uid") or (claim is not None and claim.metadata.uid == reference["uid"]):
        return []
    if volume.spec.get("persistentVolumeReclaimPolicy") == "Delete":
        return [Delete(resources.PVS, "", name, volume.metadata.uid)]
    return _phase(volume, "Released")


def claims_of(pod: LocalPod) -> list[Create]:
    """The claims of a pod's own ephemeral volumes."""
    if pod.terminating or pod.terminal:
        return []
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made: list[Create] = []
    for volume in pod.spec.volumes or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            meta = template.get("metadata") or {}
            metadata = {**meta, "name": f"{pod.metadata.name}-{volume['name']}", "ownerReferences": [owner]}
            body = {"metadata": metadata, "spec": template.get("spec") or {}}
            made.append(Create(resources.PVCS, pod.metadata.namespace, body))
    return made


def _bind(claim: Workload, volume: Workload) -> list[Action]:
    meta = claim.metadata
    actions: list[Action] = []
    reference = volume.spec.get("claimRef") or {}
    if reference.get("uid") != meta.uid:
        patch = {
            "metadata": {"annotations": {_BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": object_reference("v1", "PersistentVolumeClaim", claim)},
        }
        actions.append(Patch(resources.PVS, "", volume.metadata.name, patch))
    actions += _phase(volume, "Bound")
    annotations = {_BIND_COMPLETED: "yes"}
    if not claim.spec.get("volumeName"):
        annotations[_BOUND_BY_CONTROLLER] = "yes"
    spec = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.metadata.name}}
    status = {
        "phase": "Bound",
        "accessModes": volume.spec.get("accessModes"),
        "capacity": volume.spec.get("capacity"),
    }
    actions.append(Patch(resources.PVCS, meta.namespace, meta.name, spec))
    actions.append(Patch(resources.PVCS, meta.namespace, meta.name, {"status": status}, "status"))
    return actions


def _size(volume: Workload) -> tuple[int, str]:
    return storage_bytes(volume.spec.get("capacity")), volume.metadata.name


def _phase(volume: Workload, phase: str) -> list[Action]:
    if volume.status.get("phase") == phase:
        return []
    return [Patch(resources.PVS, "", volume.metadata.name, {"status": {"phase": phase}}, "status")]


def _new_volume(claim: Workload, storage_class: StorageClass) -> Json:
    node = claim.annotations.get(SELECTED_NODE)
    request = ((claim.spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    spec: Json = {
        "capacity": {"storage": request},
        "accessModes": claim.spec.get("accessModes") or ["ReadWriteOnce"],
        "volumeMode": claim.spec.get("volumeMode") or "Filesystem",
        "storageClassName": storage_class.metadata.name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "claimRef": object_reference("v1", "PersistentVolumeClaim", claim),
        "hostPath": {"path": f"/simulated/{claim.metadata.uid}"},
    }
    if node:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    annotations = {_PROVISIONED_BY: PROVISIONER}
    return {"metadata": {"name": f"pvc-{claim.metadata.uid}", "annotations": annotations}, "spec": spec}


def _refers_to(volume: Workload, claim: Workload) -> bool:
    meta = claim.metadata
    return is_kept_for(volume.spec, namespace=meta.namespace, name=meta.name, uid=meta.uid)
