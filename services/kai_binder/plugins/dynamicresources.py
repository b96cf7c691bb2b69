"""Writes the scheduler's device allocations into resource claims, and reserves them for the pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kai.kube import errors
from kai.kube.client import KubeClient, PatchKind
from kai.kube.forms import Form, served
from kai.kube.resources import PODS, RESOURCE_CLAIMS, Resource
from kai.model.objects import Pod
from kai.model.rules.device_claims import claim_entries, released
from kai_binder.errors import BindFailed
from kai_binder.plugins import device_conditions
from kai_binder.work import Work

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: What the API admits for one claim.
RESERVED_FOR_AT_MOST: Final = 256
_CONFLICTS_AT_MOST: Final = 8
_LOOK_SECONDS: Final = 0.5

Json = dict[str, Any]


class DynamicResources:
    """Claims of a pod, and the synthetic claim for extended resources that devices back."""

    name = "dynamicresources"

    def __init__(self, client: KubeClient, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def concerns(self, work: Work) -> bool:
        """Pods with claims, and decisions with an allocation for extended resources, now or before."""
        return (
            bool(work.pod.spec.resource_claims)
            or work.decision.extended_claim is not None
            or _has_extended(work.pod)
        )

    async def pre_bind(self, work: Work) -> None:
        """Write all allocations, and wait for devices that are brought to the node."""
        waits_for = ""
        try:
            async with asyncio.timeout(self._timeout):
                res = await self._resource()
                for claim in await self._allocate_all(res, work):
                    while waits_for := device_conditions.awaited(claim):
                        await asyncio.sleep(_LOOK_SECONDS)
                        claim = await self._again(res, claim)
        except TimeoutError:
            problem = f"{waits_for or 'no end'} after {self._timeout:g} s"
            raise BindFailed(f"resource claims of pod {work.pod.key}: {problem}") from None

    async def _allocate_all(self, res: Resource, work: Work) -> list[Json]:
        """The pod's claims, as they are then."""
        claims: list[Json] = []
        for item in work.decision.claim_allocations:
            name = claim_name(work.pod, item["name"])
            claims.append(await self._allocate(res, work.pod, name, item.get("allocation")))
        if work.decision.extended_claim is not None:
            claims.append(await self._allocate_extended(res, work.pod, work.decision.extended_claim))
        elif _has_extended(work.pod):  # of an attempt on another node: the kubelet would wait for its devices
            await self._remove_extended(res, work.pod)
        return claims

    async def _again(self, res: Resource, claim: Json) -> Json:
        """The claim as it is now, which nobody else may have had meanwhile."""
        meta = claim["metadata"]
        found: Json | None = None
        with suppress(errors.NotFound):
            found = await self._client.get(res, meta["name"], namespace=meta["namespace"])
        if found is None or found["metadata"]["uid"] != meta["uid"]:
            raise BindFailed(f"resourceclaim {meta['namespace']}/{meta['name']} was deleted meanwhile")
        if _allocated(found) != _allocated(claim):
            raise BindFailed(f"resourceclaim {meta['name']} was allocated otherwise meanwhile")
        return found

    async def rollback(self, work: Work) -> None:
        """Give reservations back; an allocation that nobody uses goes with the last of them."""
        res = await self._resource()
        for item in work.decision.claim_allocations:
            try:
                name = claim_name(work.pod, item["name"])
                await self._give_back(res, work.pod, name)
            except (BindFailed, errors.NotFound):
                continue
        if work.decision.extended_claim is not None:
            await self._remove_extended(res, work.pod)

    async def _form(self) -> Form:
        found = await served(self._client, RESOURCE_CLAIMS)
        if found is None:
            raise BindFailed("the API server serves no resource claims")
        return found

    async def _resource(self) -> Resource:
        return (await self._form()).resource

    # --- claims of the pod ---------------------------------------------------------------------
    async def _allocate(self, res: Resource, pod: Pod, name: str, allocation: Json | None) -> Json:
        try:
            return await self._change_status(res, pod, name, lambda claim: _reserved(claim, pod, allocation))
        except errors.NotFound:
            raise BindFailed(f"resourceclaim {pod.metadata.namespace}/{name} does not exist") from None

    async def _give_back(self, res: Resource, pod: Pod, name: str) -> None:
        await self._change_status(res, pod, name, lambda claim: released(claim, (pod.metadata.uid,)))

    async def _change_status(
        self, res: Resource, pod: Pod, name: str, change: Callable[[Json], Json | None]
    ) -> Json:
        """Write what ``change`` makes of the claim's status; None: nothing to write. The claim as it is then.

        Conflicts: once more.
        """
        namespace = pod.metadata.namespace
        for _ in range(_CONFLICTS_AT_MOST):
            claim = await self._client.get(res, name, namespace=namespace)
            status = change(claim)
            if status is None:
                return claim
            try:
                if status.get("allocation") is not None:
                    claim = await self._protected(res, claim)
                written: Json = await self._client.update(
                    res, name, {**claim, "status": status}, namespace=namespace, subresource="status"
                )
            except errors.Conflict:
                continue
            return written
        raise BindFailed(f"resourceclaim {namespace}/{name} changes all the time")

    async def _protected(self, res: Resource, claim: Json) -> Json:
        """The claim with the finalizer that keeps it while it is in use.

        Without it a claim could be deleted under its pod, and Kubernetes would not give back its devices
        after its last user.
        """
        meta = claim["metadata"]
        finalizers = meta.get("finalizers") or []
        if FINALIZER in finalizers:
            return claim
        changed = {"resourceVersion": meta["resourceVersion"], "finalizers": [*finalizers, FINALIZER]}
        patch = {"metadata": changed}
        found: Json = await self._client.patch(res, meta["name"], patch, namespace=meta["namespace"])
        return found

    # --- extended resources --------------------------------------------------------------------
    async def _allocate_extended(self, res: Resource, pod: Pod, extended: Json) -> Json:
        form = await self._form()
        claim = await self._find_extended(res, pod)
        if claim is not None and not _asks_for(claim if form.read is None else form.read(claim), extended):
            await self._discard(res, pod, claim)  # of an attempt on a node that offers other resources itself
            claim = None
        if claim is None:
            manifest = _extended_manifest(pod, extended)
            body = manifest if form.write is None else form.write(manifest)
            claim = await self._client.create(res, body, namespace=pod.metadata.namespace)
        name = claim["metadata"]["name"]
        allocated = await self._allocate(res, pod, name, extended.get("allocation"))
        status = {"resourceClaimName": name, "requestMappings": extended.get("containerMappings") or []}
        await self._set_pod_status(pod, status)
        return allocated

    async def _remove_extended(self, res: Resource, pod: Pod) -> None:
        claim = await self._find_extended(res, pod)
        if claim is not None:
            await self._discard(res, pod, claim)
        if claim is not None or _has_extended(pod):
            await self._set_pod_status(pod, None)

    async def _discard(self, res: Resource, pod: Pod, claim: Json) -> None:
        name, namespace = claim["metadata"]["name"], pod.metadata.namespace
        try:
            await self._give_back(res, pod, name)
            await self._client.patch(res, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            await self._client.delete(res, name, namespace=namespace, uid=claim["metadata"]["uid"])
        except (errors.NotFound, errors.Conflict):
            pass

    async def _find_extended(self, res: Resource, pod: Pod) -> Json | None:
        for claim in await self._client.list(res, namespace=pod.metadata.namespace):
            meta = claim["metadata"]
            owners = {owner.get("uid") for owner in meta.get("ownerReferences") or ()}
            marked = (meta.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"
            if marked and pod.metadata.uid in owners and not meta.get("deletionTimestamp"):
                return claim
        return None

    async def _set_pod_status(self, pod: Pod, status: Json | None) -> None:
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"extendedResourceClaimStatus": status}}
        try:
            await self._client.patch(
                PODS, meta.name, patch, namespace=meta.namespace, subresource="status", kind=PatchKind.MERGE
            )
        except errors.NotFound:
            if status is not None:
                raise


def _has_extended(pod: Pod) -> bool:
    """Whether its status names a claim for its extended resources."""
    return pod.status.extended_resource_claim_status is not None


def claim_name(pod: Pod, name: str) -> str:
    """The claim object behind a name in the pod: given directly, or made from a template.

    Raises:
        BindFailed: the pod has no such claim, or it has not been made yet.
    """
    for claim in claim_entries(pod):
        if claim.called != name:
            continue
        if claim.name is not None:
            return claim.name
        raise BindFailed(f"pod {pod.key}: the claim for {name!r} has not been made from its template yet")
    raise BindFailed(f"pod {pod.key} has no claim {name!r}")


def _reserved(claim: Json, pod: Pod, allocation: Json | None) -> Json | None:
    """The status with the pod in it, and allocated; None if it is so already."""
    status: Json = dict(claim.get("status") or {})
    users = list(status.get("reservedFor") or ())
    changed = False
    if all(user.get("uid") != pod.metadata.uid for user in users):
        if claim["metadata"].get("deletionTimestamp"):
            raise BindFailed(f"resourceclaim {claim['metadata']['name']} is being deleted")
        if len(users) >= RESERVED_FOR_AT_MOST:
            raise BindFailed(
                f"resourceclaim {claim['metadata']['name']} has {len(users)} users, the most it can"
            )
        users.append({"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid})
        changed = True
    there = status.get("allocation")
    if there is not None and allocation is not None and _devices(there) != _devices(allocation):
        raise BindFailed(f"resourceclaim {claim['metadata']['name']} was allocated otherwise meanwhile")
    if there is None and allocation is not None:
        status["allocation"] = allocation
        changed = True
    return {**status, "reservedFor": users} if changed else None


def _allocated(claim: Json) -> set[tuple[str, ...]]:
    return _devices((claim.get("status") or {}).get("allocation") or {})


def _devices(allocation: Json) -> set[tuple[str, ...]]:
    """Which devices an allocation is of, and for which request of its claim."""
    results = (allocation.get("devices") or {}).get("results") or ()
    return {tuple(each[field] for field in ("request", "driver", "pool", "device")) for each in results}


def _asks_for(claim: Json, extended: Json) -> bool:
    """Whether a claim for extended resources, in the newest form, asks for what is decided now."""
    found = (claim.get("spec") or {}).get("devices", {}).get("requests")
    return _requests(found) == _requests(extended.get("deviceRequests"))


def _requests(requests: list[Json] | None) -> set[tuple[str, str, int]]:
    exact = [(each["name"], each.get("exactly") or {}) for each in requests or ()]
    return {(name, one.get("deviceClassName", ""), one.get("count") or 1) for name, one in exact}


def _extended_manifest(pod: Pod, extended: Json) -> Json:
    meta = pod.metadata
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": f"{meta.name}-extended-resources-",
            "namespace": meta.namespace,
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": extended.get("deviceRequests") or []}},
    }
