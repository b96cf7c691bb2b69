"""Claims of devices come from templates, and are given back when their pods have ended."""

from __future__ import annotations

from typing import Any

import msgspec

from kai.kube import resources
from kai_local.controllers.actions import Create, Patch
from kai_local.controllers.device_claims import POD_CLAIM_NAME, PROTECTION, claims_for, reconcile_claim
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import DeviceClaim, LocalPod

Json = dict[str, Any]
SPEC: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
TEMPLATE = msgspec.convert(
    {
        "metadata": {"name": "one-gpu", "namespace": "ns", "uid": "t"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC},
    },
    Workload,
)
TEMPLATES = {"ns/one-gpu": TEMPLATE}


def a_pod(*claims: Json, told: list[Json] | None = None) -> LocalPod:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "pod-uid"},
        "spec": {"resourceClaims": list(claims)},
        "status": {"phase": "Pending", "resourceClaimStatuses": told},
    }
    return msgspec.convert(body, LocalPod)


def a_claim(
    *users: str, owner: str = "", allocated: bool = True, protected: bool = False, deleted: bool = False
) -> DeviceClaim:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"{owner}-uid", "controller": True}]
    body = {
        "metadata": {
            "name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "7",
            "ownerReferences": owners if owner else None,
            "finalizers": ["example.com/theirs", PROTECTION] if protected else None,
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
        },
        "status": {
            "allocation": {"devices": {"results": []}} if allocated else None,
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"{user}-uid"} for user in users],
        },
    }  # fmt: skip
    return msgspec.convert(body, DeviceClaim)


GPU = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


def test_a_claim_is_made_from_its_template_and_the_pod_told_once_it_is_there() -> None:
    [made] = claims_for(a_pod(GPU), TEMPLATES, {})
    assert isinstance(made, Create)
    meta = made.body["metadata"]
    assert meta["name"].startswith("p-gpu-")
    assert meta["annotations"] == {POD_CLAIM_NAME: "gpu"}
    assert meta["labels"] == {"a": "b"}
    assert [owner["uid"] for owner in meta["ownerReferences"]] == ["pod-uid"]
    assert made.body["spec"] == SPEC
    claim = msgspec.convert({"metadata": {**meta, "namespace": "ns", "uid": "c"}}, DeviceClaim)
    [told] = claims_for(a_pod(GPU), TEMPLATES, {claim.key: claim})
    names = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": meta["name"]}]}}
    assert told == Patch(resources.PODS, "ns", "p", names, "status")
    told_pod = a_pod(GPU, told=names["status"]["resourceClaimStatuses"])
    assert claims_for(told_pod, TEMPLATES, {claim.key: claim}) == []


def test_a_pod_whose_template_is_not_there_yet_waits_for_it() -> None:
    assert claims_for(a_pod(GPU), {}, {}) == []


def test_a_claim_that_is_named_outright_is_left_alone() -> None:
    assert claims_for(a_pod({"name": "gpu", "resourceClaimName": "mine"}), TEMPLATES, {}) == []


def test_a_pod_that_has_ended_is_taken_off_and_the_others_keep_the_devices() -> None:
    [patch] = reconcile_claim(a_claim("a", "b"), {"a-uid"})
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"] == {"resourceVersion": "7"}
    assert patch.patch["status"] == {"reservedFor": [{"resource": "pods", "name": "b", "uid": "b-uid"}]}


def test_the_last_one_gives_the_devices_back() -> None:
    [patch] = reconcile_claim(a_claim("a"), {"a-uid"})
    assert isinstance(patch, Patch)
    assert patch.patch["status"] == {"reservedFor": None, "allocation": None}


def changes(claim: DeviceClaim, *ended: str) -> list[Json]:
    """What is patched, step by step, until the claim is deleted or nothing is left to do."""
    found: list[Json] = []
    while (actions := reconcile_claim(claim, set(ended))) and isinstance(actions[0], Patch):
        [patch] = actions
        assert patch.patch["metadata"].pop("resourceVersion") == "7"
        found.append({key: value for key, value in patch.patch.items() if value})
        claim = _patched(claim, patch)
    deleted = bool(actions) or bool(claim.metadata.deletion_timestamp and not claim.metadata.finalizers)
    return [*found, {"deleted": deleted}]


def _patched(claim: DeviceClaim, patch: Patch) -> DeviceClaim:
    body = msgspec.to_builtins(claim)
    for part in ("metadata", "status"):
        body[part] |= patch.patch.get(part, {})
    return msgspec.convert(body, DeviceClaim)


GIVEN_BACK = {"status": {"reservedFor": None, "allocation": None}}
UNPROTECTED = {"metadata": {"finalizers": ["example.com/theirs"]}}


def test_a_claim_that_was_made_for_a_pod_goes_with_it() -> None:
    assert changes(a_claim("a", owner="a"), "a-uid") == [GIVEN_BACK, {"deleted": True}]
    protected = a_claim("a", owner="a", protected=True)
    assert changes(protected, "a-uid") == [GIVEN_BACK, UNPROTECTED, {"deleted": True}]


def test_a_claim_that_is_deleted_while_it_is_in_use_goes_with_its_last_user() -> None:
    claim = a_claim("a", "b", protected=True, deleted=True)
    assert changes(claim) == [{"deleted": False}]
    one = {"status": {"reservedFor": [{"resource": "pods", "name": "b", "uid": "b-uid"}]}}
    assert changes(claim, "a-uid") == [one, {"deleted": False}]
    assert changes(claim, "a-uid", "b-uid")[:2] == [GIVEN_BACK, UNPROTECTED]


def test_a_claim_that_is_deleted_and_was_never_used_gives_back_what_a_driver_allocated() -> None:
    claim = a_claim(protected=True, deleted=True)
    assert changes(claim)[:2] == [{"status": {"allocation": None}}, UNPROTECTED]


def test_a_claim_that_stays_keeps_its_protection() -> None:
    assert changes(a_claim("a", protected=True), "a-uid") == [GIVEN_BACK, {"deleted": False}]


def test_nothing_is_done_while_all_users_live() -> None:
    assert reconcile_claim(a_claim("a", "b"), set()) == []
