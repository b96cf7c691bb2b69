"""Claims of devices: made from the templates that pods name, and given back when their pods have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kai.kube import resources
from kai.model.objects import Json
from kai_local.controllers.actions import Action, Create, Delete, Patch
from kai_local.controllers.objects import Workload, content_hash, owner_reference
from kai_local.parts.objects import DeviceClaim, LocalPod
from kai_local.parts.watches import controller_of

#: On a claim that was made for a pod: how the pod calls it.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
#: Finalizer that an allocated claim has, so that its devices are not lost sight of while they are in use.
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


def claims_for(
    pod: LocalPod, templates: Mapping[str, Workload], claims: Mapping[str, DeviceClaim]
) -> list[Action]:
    """Make the claims that a pod lacks and, once they are there, tell the pod their names."""
    known = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses or ()}
    namespace, actions, told = pod.metadata.namespace, list[Action](), dict(known)
    for wanted in pod.spec.resource_claims or ():
        template = templates.get(f"{namespace}/{wanted.resource_claim_template_name}")
        if template is None or wanted.name in known:
            continue
        name = f"{pod.metadata.name}-{wanted.name}-{content_hash(pod.metadata.uid, 5)}"
        if f"{namespace}/{name}" in claims:
            told[wanted.name] = name
        else:
            body = _claim(pod, template, wanted.name, name)
            actions.append(Create(resources.RESOURCE_CLAIMS, namespace, body))
    if told != known:
        entries = [{"name": claim, "resourceClaimName": name} for claim, name in told.items()]
        patch = {"status": {"resourceClaimStatuses": entries}}
        actions.append(Patch(resources.PODS, namespace, pod.metadata.name, patch, "status"))
    return actions


def _claim(pod: LocalPod, template: Workload, called: str, name: str) -> Json:
    meta = template.spec.get("metadata") or {}
    return {
        "metadata": {
            "name": name,
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: called},
            "ownerReferences": [owner_reference("v1", "Pod", pod)],
        },
        "spec": template.spec.get("spec") or {},
    }


def reconcile_claim(claim: DeviceClaim, ended: Collection[str]) -> list[Action]:
    """The next step for a claim whose pods (uids) have ended: the last that goes gives its devices back.

    A claim that was made for one of them goes, and one that is deleted goes with its last user.
    """
    meta, status = claim.metadata, claim.status
    owner = controller_of(claim)
    over = owner is not None and owner.uid in ended
    users = status.reserved_for or []
    kept = [user for user in users if user.get("uid") not in ended]
    if len(kept) < len(users):
        return [_change(claim, status={"reservedFor": kept or None} | ({} if kept else {"allocation": None}))]
    if kept or not (over or meta.deletion_timestamp):
        return []
    if status.allocation is not None:
        return [_change(claim, status={"allocation": None})]
    finalizers = meta.finalizers or []
    if PROTECTION in finalizers:
        left = [each for each in finalizers if each != PROTECTION]
        return [_change(claim, metadata={"finalizers": left or None})]
    return [] if meta.deletion_timestamp else [Delete.of(resources.RESOURCE_CLAIMS, claim)]


def _change(claim: DeviceClaim, *, metadata: Json | None = None, status: Json | None = None) -> Patch:
    """Somebody may reserve it at this moment: then the version is another one, and we look again."""
    meta = claim.metadata
    patch: Json = {"metadata": {"resourceVersion": meta.resource_version} | (metadata or {})}
    if status is None:
        return Patch(resources.RESOURCE_CLAIMS, meta.namespace, meta.name, patch)
    return Patch(resources.RESOURCE_CLAIMS, meta.namespace, meta.name, patch | {"status": status}, "status")


def users_of(claim: DeviceClaim) -> dict[str, str]:
    """Uid -> name of the pods that a claim is reserved for, or was made for."""
    users = claim.status.reserved_for or []
    found = {user["uid"]: user["name"] for user in users if user.get("resource") == "pods"}
    owner = controller_of(claim)
    return found | ({owner.uid: owner.name} if owner is not None and owner.kind == "Pod" else {})
