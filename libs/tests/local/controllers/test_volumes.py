"""Claims and volumes find each other, and go when they are no longer wanted."""

from __future__ import annotations

from typing import Any

import msgspec

from kai.model.objects import ObjectMeta
from kai_local.controllers.actions import Create, Delete, Patch
from kai_local.controllers.objects import Workload
from kai_local.controllers.volumes import (
    PROVISIONER,
    StorageClass,
    claims_of,
    reconcile_claim,
    reconcile_volume,
)
from kai_local.parts.objects import LocalPod

Json = dict[str, Any]
WAITING = StorageClass(
    metadata=ObjectMeta(name="standard"), provisioner=PROVISIONER, volume_binding_mode="WaitForFirstConsumer"
)
CLASSES = {
    "standard": WAITING,
    "fast": StorageClass(metadata=ObjectMeta(name="fast"), provisioner=PROVISIONER),
}


def a_claim(size: str = "1Gi", *, node: str = "", status: Json | None = None, **spec: Any) -> Workload:
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {}
    meta = {"name": "c", "namespace": "ns", "uid": "claim-uid", "annotations": annotations}
    resources = {"requests": {"storage": size}}
    body = {"storageClassName": "standard", "accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return msgspec.convert({"metadata": meta, "spec": body, "status": status or {}}, Workload)


def a_volume(name: str, size: str = "1Gi", *, status: Json | None = None, **spec: Any) -> Workload:
    body = {
        "storageClassName": "",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Delete",
        **spec,
    }
    return msgspec.convert(
        {"metadata": {"name": name, "uid": name}, "spec": body, "status": status or {}}, Workload
    )


def bound_to(actions: Any) -> str | None:
    names = [
        a.patch["spec"]["volumeName"]
        for a in actions
        if isinstance(a, Patch) and "volumeName" in a.patch.get("spec", {})
    ]
    return names[0] if names else None


def test_a_claim_waits_for_its_first_consumer_then_gets_a_volume_on_that_node() -> None:
    assert reconcile_claim(a_claim(), [], CLASSES) == []
    (create,) = reconcile_claim(a_claim("5Gi", node="node-1"), [], CLASSES)
    assert isinstance(create, Create)
    assert create.body["spec"]["capacity"] == {"storage": "5Gi"}
    assert create.body["spec"]["claimRef"]["uid"] == "claim-uid"
    (term,) = create.body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node-1"]
    made = msgspec.convert(create.body, Workload)
    assert bound_to(reconcile_claim(a_claim("5Gi", node="node-1"), [made], CLASSES)) == f"pvc-{'claim-uid'}"


def test_a_claim_of_an_immediate_class_gets_a_volume_at_once() -> None:
    (create,) = reconcile_claim(a_claim(storageClassName="fast"), [], CLASSES)
    assert isinstance(create, Create)
    assert "nodeAffinity" not in create.body["spec"]


def test_a_claim_without_a_class_takes_the_smallest_volume_that_is_large_enough() -> None:
    volumes = [
        a_volume("big", "10Gi"),
        a_volume("right", "3Gi"),
        a_volume("small"),
        a_volume("taken", "2Gi", claimRef={"namespace": "ns", "name": "other", "uid": "x"}),
    ]
    assert bound_to(reconcile_claim(a_claim("2Gi", storageClassName=""), volumes, CLASSES)) == "right"
    assert reconcile_claim(a_claim("20Gi", storageClassName=""), volumes, CLASSES) == []


def test_a_claim_takes_no_volume_of_other_labels_or_another_mode() -> None:
    unlabelled = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    asked = a_claim(storageClassName="", selector=unlabelled)
    assert reconcile_claim(asked, [a_volume("v")], CLASSES) == []
    assert reconcile_claim(a_claim(storageClassName=""), [a_volume("v", volumeMode="Block")], CLASSES) == []


def test_a_volume_that_a_binder_has_chosen_is_taken() -> None:
    reference = {"namespace": "ns", "name": "c", "uid": "claim-uid"}
    actions = reconcile_claim(a_claim(), [a_volume("chosen", claimRef=reference)], CLASSES)
    assert bound_to(actions) == "chosen"
    statuses = [a.patch["status"]["phase"] for a in actions if isinstance(a, Patch) and a.subresource]
    assert statuses == ["Bound", "Bound"]


def test_a_bound_claim_is_left_alone() -> None:
    assert reconcile_claim(a_claim(status={"phase": "Bound"}), [], CLASSES) == []


def test_a_free_volume_says_so() -> None:
    (patch,) = reconcile_volume(a_volume("v"), {})
    assert isinstance(patch, Patch)
    assert patch.patch == {"status": {"phase": "Available"}}


def test_a_volume_goes_or_is_kept_when_its_claim_is_gone() -> None:
    reference = {"namespace": "ns", "name": "c", "uid": "claim-uid"}
    assert reconcile_volume(a_volume("v", claimRef=reference), {"ns/c": a_claim()}) == []
    (delete,) = reconcile_volume(a_volume("v", claimRef=reference), {})
    assert isinstance(delete, Delete)
    kept = a_volume("v", claimRef=reference, persistentVolumeReclaimPolicy="Retain")
    (patch,) = reconcile_volume(kept, {})
    assert isinstance(patch, Patch)
    assert patch.patch == {"status": {"phase": "Released"}}


def test_an_ephemeral_volume_gets_a_claim_of_the_pods_own() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"volumes": [volume]}}
    (create,) = claims_of(msgspec.convert(body, LocalPod))
    assert create.body["metadata"]["name"] == "p-scratch"
    assert create.body["metadata"]["ownerReferences"][0]["uid"] == "u"
