"""Devices held for sharing, and who may use and who may free them.

Any number of binders work at the same time, and none leads. The invariant that keeps them from
freeing what another one is about to use:

    A binder uses a device only after it has written its pod's *claim* into the reservation pod, by a
    patch whose answer names the device. A reservation pod is deleted only by who has read it at some
    resource version and found that nobody counts on it (no live consumer on its node, every claim
    expired or its pod gone), and only at that very version (precondition of the delete).

Both go through the one version of one object. Either the delete comes first, then the patch answers
"not found" and the pod is made anew; or the claim comes first, then the delete answers "conflict" and
the sync looks again. It takes neither a leader nor Redis, and any step may be the last of a process:
a claim runs out, and whoever syncs next finishes the work.

A claim also says what the pod is granted, by the decision and not by the pod. Once the pod is bound it does
not run out any more: it is the record of what the pod holds (:mod:`kai.model.claims`), until the pod ends.
The next claim on the same device clears it away then, or it goes with the reservation pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import PODS
from kai.kube.store import Store
from kai.model import names
from kai.model.claims import Claim, Grant
from kai.model.ids import PodUid
from kai.model.objects import Pod
from kai.model.rules.gpu_groups import gpu_group_labels, is_gpu_group_label
from kai.wire.decisions import BIND_SECONDS
from kai_binder.errors import BindFailed
from kai_binder.objects import WatchedPod
from kai_binder.reservation_pods import ReservationPod, ReservationTemplate, reservation_name

#: How much longer a claim lasts than a bind may take: than a scheduler waits for its end, too.
CLAIM_MARGIN: Final = 140.0
#: Looks at a reservation pod, beside the watch, while waiting for its device.
LOOK_SECONDS: Final = 5.0
_ATTEMPTS: Final = 5

_log = structlog.get_logger(__name__)


def reservation_store() -> Store[ReservationPod]:
    """An empty store of reservation pods, to be found by node, by group and by the uids of claimants."""
    return Store(
        indexes={
            "node": lambda pod: (pod.spec.node_name,),
            "group": lambda pod: (pod.group,),
            "claimant": lambda pod: pod.claims,
        }
    )


class Reservations:
    """Reservation pods of all nodes; ``store`` (:func:`reservation_store`) follows them, ``pods`` ours.

    ``longest_bind``: what the time limits of a bind add up to, in seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        store: Store[ReservationPod],
        template: ReservationTemplate,
        *,
        pods: Store[WatchedPod],
        binder_id: str,
        allocation_timeout: float,
        longest_bind: float = BIND_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._store = store
        self._template = template
        self._pods = pods
        self._binder_id = binder_id
        self._allocation_timeout = allocation_timeout
        self._claim_seconds = longest_bind + CLAIM_MARGIN
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        store.listen(self._changed)

    @property
    def namespace(self) -> str:
        """Where reservation pods live."""
        return self._template.namespace

    def on_node(self, node: str) -> list[ReservationPod]:
        """The reservation pods of a node, as far as the watch has told."""
        return self._store.by_index("node", node)

    async def reserve(self, pod: Pod, *, node: str, group: str, grant: Grant) -> str:
        """The device of a group on a node, claimed for ``pod``, with what it gets there recorded.

        A reservation pod is made if there is none.

        Raises:
            BindFailed: none is to be had now.
        """
        # Pods of one device claim it in turn, and then wait for it together.
        async with self._locks.setdefault(reservation_name(node, group), asyncio.Lock()):
            reservation = await self._claimed(pod, node, group, grant)
        return reservation.device or await self._wait_for_device(reservation)

    async def renew(self, pod: Pod, *, node: str, group: str, grant: Grant) -> str:
        """The device of a group that was reserved for ``pod``, claimed once more; empty if it is lost."""
        patch = {"metadata": {"annotations": self._claim_of(pod, grant)}}
        try:
            reservation = await self._patch(self._name_of(node, group), patch)
        except errors.NotFound:
            return ""
        return "" if reservation.lost else reservation.device

    async def release_claim(self, pod: Pod, *, node: str, group: str) -> None:
        """The pod does not count on the group any more."""
        patch = {"metadata": {"annotations": {_claim_key(pod): None}}}
        try:
            await self._patch(self._name_of(node, group), patch)
        except errors.NotFound:
            return

    async def record(self, reservation: ReservationPod, grants: dict[str, tuple[str, Grant]]) -> bool:
        """Write down what pods hold that were bound without a record; false if it changed meanwhile.

        ``grants`` are ``namespace/name`` and grant by pod uid.
        """
        now = self._clock()
        claims = {
            f"{names.RESERVATION_CLAIM_PREFIX}{uid}": Claim(now, pod, grant).render()
            for uid, (pod, grant) in grants.items()
        }
        meta = reservation.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": claims}}
        try:
            await self._patch(meta.name, patch)
        except (errors.NotFound, errors.Conflict):
            return False
        _log.info(
            "consumers recorded", reservation=reservation.key, pods=sorted(pod for pod, _ in grants.values())
        )
        return True

    async def delete(self, reservation: ReservationPod) -> bool:
        """Delete it if it is as it was read; false if it changed meanwhile."""
        meta = reservation.metadata
        try:
            await self._client.delete(
                PODS,
                meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
                grace_seconds=0,
            )
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        _log.info(
            "reservation freed", pod=reservation.key, node=reservation.spec.node_name, group=reservation.group
        )
        return True

    async def read(self, node: str, group: str) -> ReservationPod | None:
        """The reservation pod of a group as it is at this moment; None if there is none."""
        return await self.read_again(self._name_of(node, group))

    async def read_again(self, name: str) -> ReservationPod | None:
        """The reservation pod of a name as it is at this moment; None if there is none."""
        try:
            return await self._client.get(PODS, name, namespace=self.namespace, type=ReservationPod)
        except errors.NotFound:
            return None

    def _known(self, node: str, group: str) -> ReservationPod | None:
        """Who stands for the group on the node, as far as the watch has told.

        Other schedulers give such pods other names, and may have made several for one group; of these one
        that holds a device is taken, always the same.
        """
        there = [pod for pod in self._store.by_index("group", group) if pod.spec.node_name == node]
        return min(there, key=lambda pod: (pod.lost, not pod.device, pod.metadata.name), default=None)

    def _name_of(self, node: str, group: str) -> str:
        known = self._known(node, group)
        return known.metadata.name if known is not None else reservation_name(node, group)

    # --- getting one ---------------------------------------------------------------------------
    async def _claimed(self, pod: Pod, node: str, group: str, grant: Grant) -> ReservationPod:
        """A reservation that lasts, with our claim in it.

        Raises:
            BindFailed: there is none.
        """
        for _ in range(_ATTEMPTS):
            reservation = await self._claim_or_create(pod, node, group, grant)
            if reservation is None:
                continue
            if not reservation.lost:
                return reservation
            await self._remove(reservation, "it has ended, or is about to")
        raise BindFailed(
            f"GPU group {group} on node {node}: its reservation pod does not last", node_at_fault=True
        )

    async def _claim_or_create(self, pod: Pod, node: str, group: str, grant: Grant) -> ReservationPod | None:
        """The reservation with our claim in it; None if others were quicker twice."""
        known = self._known(node, group)
        claim = self._claim_of(pod, grant)
        if known is None:
            if (created := await self._create(node, group, claim)) is not None:
                return created
            known_claims: dict[PodUid, Claim] = {}
        else:
            known_claims = known.claims
        over = {
            f"{names.RESERVATION_CLAIM_PREFIX}{uid}": None
            for uid, old in known_claims.items()
            if self._is_over(uid, old, node)
        }
        try:
            return await self._patch(self._name_of(node, group), {"metadata": {"annotations": over | claim}})
        except errors.NotFound:
            return await self._create(node, group, claim)

    def _claim_of(self, pod: Pod, grant: Grant) -> dict[str, str]:
        return {_claim_key(pod): Claim(self._clock() + self._claim_seconds, pod.key, grant).render()}

    def _is_over(self, uid: str, claim: Claim, node: str) -> bool:
        """Whether it has run out, and its pod does not run on the node: nothing is held by it."""
        pod = self._pods.get(claim.pod)
        holds = (
            pod is not None and pod.metadata.uid == uid and not pod.finished and pod.spec.node_name == node
        )
        return claim.until < self._clock() and not holds

    async def _create(self, node: str, group: str, claim: dict[str, str]) -> ReservationPod | None:
        manifest = self._template.manifest(
            node=node,
            group=group,
            annotations={names.RESERVED_BY: self._binder_id, **claim},
        )
        try:
            created = await self._client.create(
                PODS, manifest, namespace=self._template.namespace, type=ReservationPod
            )
        except errors.AlreadyExists:
            return None
        except (errors.Forbidden, errors.Invalid, errors.BadRequest) as error:
            raise BindFailed(f"GPU group {group}: no reservation pod on node {node}: {error}") from error
        except errors.TransportError:
            # It may exist now: the next attempt finds out.
            return None
        _log.info("device reserved", pod=created.key, node=node, group=group)
        return created

    async def _patch(self, name: str, patch: dict[str, Any]) -> ReservationPod:
        patched: ReservationPod = await self._client.patch(
            PODS, name, patch, namespace=self._template.namespace, type=ReservationPod
        )
        return patched

    # --- its device ----------------------------------------------------------------------------
    async def _wait_for_device(self, reservation: ReservationPod) -> str:
        changed = asyncio.Event()
        waiting = self._waiting.setdefault(reservation.key, set())
        waiting.add(changed)
        try:
            async with asyncio.timeout(self._allocation_timeout):
                return await self._device_of(reservation, changed)
        except TimeoutError:
            if device := await self._last_look(reservation):
                return device
            raise BindFailed(
                f"reservation pod {reservation.key} on node {reservation.spec.node_name} got no device "
                f"within {self._allocation_timeout:g} s; see its status and logs",
                node_at_fault=True,
            ) from None
        finally:
            waiting.discard(changed)
            if not waiting:
                self._waiting.pop(reservation.key, None)

    async def _last_look(self, reservation: ReservationPod) -> str:
        """The device of one whose time is up, if it came just now; else empty, and the pod is given up.

        Only as it was read: whoever else waits for the device may have been told it, and bind a pod to it.
        """
        for _ in range(_ATTEMPTS):
            current = await self.read_again(reservation.metadata.name)
            if current is None or current.metadata.uid != reservation.metadata.uid:
                break
            if current.device and not current.lost:
                return current.device
            reason = f"no device after {self._allocation_timeout:g} s"
            if await self._remove(current, reason, resource_version=current.metadata.resource_version):
                break
        return ""

    async def _device_of(self, reservation: ReservationPod, changed: asyncio.Event) -> str:
        current: ReservationPod | None = reservation
        while True:
            if current is None or current.metadata.uid != reservation.metadata.uid:
                raise BindFailed(
                    f"reservation pod {reservation.key} was deleted while we waited for its device"
                )
            if current.lost:
                await self._remove(current, "it has ended, or is about to")
                raise BindFailed(
                    f"reservation pod {reservation.key} ended: {current.status.message or 'no reason'}",
                    node_at_fault=True,
                )
            if current.device:
                return current.device
            current = await self._next(reservation, changed)

    async def _next(self, reservation: ReservationPod, changed: asyncio.Event) -> ReservationPod | None:
        """The pod after its next change; now and then as it is, in case the watch is late."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await changed.wait()
        except TimeoutError:
            return await self.read_again(reservation.metadata.name)
        changed.clear()
        known = self._store.get(reservation.key)
        if known is not None and known.metadata.uid == reservation.metadata.uid:
            return known
        # Gone, or the watch tells still of the end of one before it that had its name.
        return await self.read_again(reservation.metadata.name)

    def _changed(self, old: ReservationPod | None, new: ReservationPod | None) -> None:
        pod = new or old
        assert pod is not None
        for event in self._waiting.get(pod.key, ()):
            event.set()

    async def _remove(self, reservation: ReservationPod, reason: str, *, resource_version: str = "") -> bool:
        """Delete one that holds nothing: whoever still waits for its device waits in vain.

        False if it is not the one of that version any more, where one is given.
        """
        meta = reservation.metadata
        _log.warning(
            "reservation given up", pod=reservation.key, node=reservation.spec.node_name, reason=reason
        )
        try:
            await self._client.delete(
                PODS,
                meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=resource_version,
                grace_seconds=0,
            )
        except errors.NotFound:
            return True
        except errors.Conflict:
            return False
        return True


def _claim_key(pod: Pod) -> str:
    return f"{names.RESERVATION_CLAIM_PREFIX}{pod.metadata.uid}"


def group_labels(groups: tuple[str, ...], labels: dict[str, str]) -> dict[str, str | None]:
    """The label changes that make ``groups`` a pod's groups: one form for one device, another for several."""
    wanted: dict[str, str | None] = {**gpu_group_labels(groups)}
    stale = {key: None for key in labels if is_gpu_group_label(key) and key not in wanted}
    return {**stale, **{key: value for key, value in wanted.items() if labels.get(key) != value}}
