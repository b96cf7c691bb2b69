"""Which volume claims a pod has, and which volume may be a claim's: Kubernetes' rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai.model import quantity
from kai.model.objects import Pod
from kai.model.rules.selectors import label_selector

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


def claim_names(pod: Pod) -> list[str]:
    """The claims that a pod's volumes name, in order; an ephemeral volume's is named after pod and volume."""
    found = (claim_name(volume, pod.metadata.name) for volume in pod.spec.volumes or ())
    return list(dict.fromkeys(name for name in found if name is not None))


def own_claim_names(pod: Pod) -> set[str]:
    """Those of its claims that are made for the pod alone, and go with it: of its ephemeral volumes."""
    return {
        name
        for volume in pod.spec.volumes or ()
        if is_ephemeral(volume) and (name := claim_name(volume, pod.metadata.name))
    }


def is_ephemeral(volume: Mapping[str, Any]) -> bool:
    """Whether the claim behind a pod's volume is made for the pod alone."""
    return "ephemeral" in volume


def is_made_for(claim: Mapping[str, Any], uid: str) -> bool:
    """Whether a claim is that of an ephemeral volume of the pod with this uid, and of no other pod's."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)


def claim_name(volume: Mapping[str, Any], pod: str) -> str | None:
    """The claim behind one volume of a pod of this name; None if there is none behind it."""
    if claim := volume.get("persistentVolumeClaim"):
        return str(claim.get("claimName", ""))
    return f"{pod}-{volume.get('name', '')}" if "ephemeral" in volume else None


def waits_for_consumer(storage: Mapping[str, Any] | None) -> bool:
    """Whether claims of a storage class are bound for the node that a pod is given; not without a class."""
    return storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"


def selected_node(claim: Mapping[str, Any]) -> str:
    """The node for which a claim's provisioner is making a volume, or has made it; empty if it makes none."""
    return str((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "")


def is_to_be_had(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Whether a claim that has no volume may take this one: it is free, or kept for the claim, and stays."""
    if volume["metadata"].get("deletionTimestamp"):
        return False
    spec, meta = volume.get("spec") or {}, claim["metadata"]
    if spec.get("claimRef"):
        namespace, uid = meta.get("namespace", ""), meta.get("uid", "")
        return is_kept_for(spec, namespace=namespace, name=meta["name"], uid=uid)
    return (volume.get("status") or {}).get("phase") in ("Available", "", None)


def is_kept_for(spec: Mapping[str, Any], *, namespace: str, name: str, uid: str) -> bool:
    """Whether a volume's ``spec`` refers to this claim; without uid it is to whatever claim has the name."""
    reference = spec.get("claimRef") or {}
    if (reference.get("namespace"), reference.get("name")) != (namespace, name):
        return False
    return reference.get("uid") in (None, "", uid)


def suits(volume: Mapping[str, Any], labels: Mapping[str, str], claim: Mapping[str, Any]) -> bool:
    """Whether a volume has what a claim asks for: class, mode, ways of access, size, and labels.

    Of both it reads ``spec``.

    Raises:
        InvalidQuantity: a size is none.
    """
    selector = claim.get("selector")
    wanted = (claim.get("resources") or {}).get("requests")
    return (
        (volume.get("storageClassName") or "") == (claim.get("storageClassName") or "")
        and (volume.get("volumeMode") or "Filesystem") == (claim.get("volumeMode") or "Filesystem")
        and set(claim.get("accessModes") or ()) <= set(volume.get("accessModes") or ())
        and storage_bytes(volume.get("capacity")) >= storage_bytes(wanted)
        and (not selector or label_selector(selector)(labels))
    )


def storage_bytes(amounts: Mapping[str, str] | None) -> int:
    """Bytes of a claim's requests or of a volume's capacity; 0 if they do not say."""
    text = (amounts or {}).get("storage")
    return quantity.whole(text) if text else 0
