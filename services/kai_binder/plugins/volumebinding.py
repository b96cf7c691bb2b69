"""Binds the volume claims of a pod for the node that was chosen, and waits until they are bound.

A claim whose storage class waits for its first consumer gets a volume that exists and can be reached
from the node, the smallest that is large enough; else the node is written on the claim, and the class's
provisioner makes one. Where the bind of another pod was quicker, its volume is waited for: whether this node
reaches it is known once it is there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import NODES, PVCS, PVS, STORAGE_CLASSES
from kai.model.objects import Json, Pod
from kai.model.rules.selectors import node_selector
from kai.model.rules.volumes import (
    SELECTED_NODE,
    claim_names,
    is_made_for,
    is_to_be_had,
    own_claim_names,
    selected_node,
    storage_bytes,
    suits,
)
from kai.model.words import listed
from kai_binder.errors import BindFailed
from kai_binder.work import Work

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_LOOK_SECONDS: Final = 0.5


class VolumeBinding:
    """Claims that are bound already only need their volume to be reachable."""

    name = "volumebinding"

    def __init__(self, client: KubeClient, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    def concerns(self, work: Work) -> bool:
        """Pods with volume claims, their own ephemeral ones included."""
        return bool(claim_names(work.pod))

    async def pre_bind(self, work: Work) -> None:
        """Have all claims bound, each to a volume that the node reaches."""
        node = await self._client.get(NODES, work.decision.node)
        waiting = claim_names(work.pod)
        begun: dict[str, str] = {}
        try:
            async with asyncio.timeout(self._timeout):
                while waiting:
                    waiting = [
                        name for name in waiting if not await self._is_ready(work.pod, name, node, begun)
                    ]
                    if waiting:
                        await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise BindFailed(
                f"persistentvolumeclaims {listed(waiting)} of pod {work.pod.key} are not bound after "
                f"{self._timeout:g} s"
            ) from None

    async def rollback(self, work: Work) -> None:
        """A volume that is bound, or being made, stays the claim's: it will be used wherever it can be."""

    async def _is_ready(self, pod: Pod, name: str, node: Json, begun: dict[str, str]) -> bool:
        """Whether a claim is bound; what is needed for that is begun when it is looked at first.

        ``begun`` tells for which node a volume is made for each claim, with an empty name where there is one.
        """
        claim = await self._claim(pod, name)
        if _is_bound(claim):
            await self._check_reachable(claim, node)
            return True
        if name in begun:
            _check_still_made(claim, begun[name])
            return False
        with suppress(errors.Conflict):  # who changed it may have chosen a node: look again
            begun[name] = await self._start(claim, node)
        return False

    async def _claim(self, pod: Pod, name: str) -> Json:
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        try:
            claim = await self._client.get(PVCS, name, namespace=namespace)
        except errors.NotFound:
            raise BindFailed(f"persistentvolumeclaim {namespace}/{name} does not exist") from None
        if claim["metadata"].get("deletionTimestamp"):
            raise BindFailed(f"persistentvolumeclaim {namespace}/{name} is being deleted")
        if name in own_claim_names(pod) and not is_made_for(claim, uid):
            raise BindFailed(
                f"persistentvolumeclaim {namespace}/{name} was not made for the ephemeral volume of this pod "
                f"(uid {uid}); delete it unless it goes by itself"
            )
        return claim

    async def _check_reachable(self, claim: Json, node: Json) -> None:
        volume = await self._client.get(PVS, claim["spec"]["volumeName"])
        if not reachable(volume, node):
            raise BindFailed(
                f"volume {volume['metadata']['name']} of claim {_key(claim)} cannot be reached from node "
                f"{node['metadata']['name']}"
            )

    # --- unbound claims ------------------------------------------------------------------------
    async def _start(self, claim: Json, node: Json) -> str:
        """Choose a volume, or ask for one; the node for which it is made, empty if there is one.

        Raises:
            Conflict: the claim has changed since it was read.
        """
        if claim["spec"].get("volumeName"):
            return ""  # bound by name; the volume controller is about to finish it
        storage_class = await self._storage_class(claim)
        if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
            raise BindFailed(f"persistentvolumeclaim {_key(claim)} is not bound yet, and not by us to bind")
        provisioned = storage_class.get("provisioner") != NO_PROVISIONER
        if provisioned and (chosen := selected_node(claim)):
            return chosen
        if await self._take_existing(claim, node):
            return ""
        if not provisioned:
            raise BindFailed(
                f"no volume of class {storage_class['metadata']['name']} for claim {_key(claim)} can be "
                f"reached from node {node['metadata']['name']}"
            )
        return await self._ask_for_volume(claim, node["metadata"]["name"])

    async def _storage_class(self, claim: Json) -> Json | None:
        name = claim["spec"].get("storageClassName")
        if not name:
            return None
        try:
            return await self._client.get(STORAGE_CLASSES, name)
        except errors.NotFound:
            raise BindFailed(f"storageclass {name} of claim {_key(claim)} does not exist") from None

    async def _take_existing(self, claim: Json, node: Json) -> bool:
        """Bind the smallest volume that fits; false if there is none. If others are quicker, the next."""
        meta = claim["metadata"]
        volumes = [volume for volume in await self._client.list(PVS) if could_be(volume, claim)]
        if any((volume["spec"].get("claimRef") or {}).get("uid") == meta["uid"] for volume in volumes):
            return True  # the bind of another pod, or one of ours before, has taken it
        for volume in sorted((volume for volume in volumes if reachable(volume, node)), key=_size):
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            }
            bound = {
                "metadata": {
                    "resourceVersion": volume["metadata"]["resourceVersion"],
                    "annotations": {BOUND_BY_CONTROLLER: "yes"},
                },
                "spec": {"claimRef": reference},
            }
            try:
                await self._client.patch(PVS, volume["metadata"]["name"], bound)
            except (errors.Conflict, errors.NotFound):
                continue
            return True
        return False

    async def _ask_for_volume(self, claim: Json, node: str) -> str:
        meta = claim["metadata"]
        as_read = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        patch = {"metadata": {**as_read, "annotations": {SELECTED_NODE: node}}}
        await self._client.patch(PVCS, meta["name"], patch, namespace=meta["namespace"])
        return node


def _check_still_made(claim: Json, node: str) -> None:
    """A provisioner that cannot make the volume for a node takes the node off the claim again."""
    chosen = selected_node(claim)
    if not node or chosen == node or claim["spec"].get("volumeName"):
        return
    if chosen:
        raise BindFailed(f"persistentvolumeclaim {_key(claim)} is meant for node {chosen} meanwhile")
    raise BindFailed(
        f"no volume could be made for claim {_key(claim)} on node {node}: see the events of the claim"
    )


def _size(volume: Json) -> tuple[int, str]:
    return storage_bytes(volume["spec"].get("capacity")), volume["metadata"]["name"]


def could_be(volume: Json, claim: Json) -> bool:
    """Whether a volume that exists could be this claim's."""
    labels = volume["metadata"].get("labels") or {}
    return is_to_be_had(volume, claim) and suits(volume["spec"], labels, claim["spec"])


def reachable(volume: Json, node: Json) -> bool:
    """Whether the volume's own node affinity admits the node."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    meta = node["metadata"]
    return required is None or node_selector(required, meta["name"], meta.get("labels") or {})


def _is_bound(claim: Json) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    named = bool(claim["spec"].get("volumeName"))
    return named and (BIND_COMPLETED in annotations or (claim.get("status") or {}).get("phase") == "Bound")


def _key(claim: Json) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
