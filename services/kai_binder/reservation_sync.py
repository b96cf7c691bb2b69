"""Bringing reservation pods and their consumers together again, node by node.

* A reservation that nobody counts on is freed, so that its device can be had as a whole.
* A consumer that runs on a device which nobody holds any more is deleted: somebody else may get it.

Every binder watches all nodes, and any of them may act (see :mod:`kai_binder.reservations` for why they
cannot do harm). So that they do not all do the same, who made a reservation looks after it at once, and
the others only after a while, if it is still there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import PODS
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai.model import names
from kai_binder.objects import WatchedPod, gpu_groups
from kai_binder.reservation_pods import Claim, ReservationPod
from kai_binder.reservations import Reservations

#: Seconds before a binder looks after what another one made.
OTHERS_WAIT: Final = (1.0, 2.0)
#: Seconds before a new reservation is looked at, to see whether it came to be used.
NEW_ONES_WAIT: Final = (60.0, 90.0)
#: Seconds before a conflict is looked at again.
CHANGED_MEANWHILE: Final = 0.5

_log = structlog.get_logger(__name__)


class ReservationSync:
    """Watches pods and reservation pods, and syncs the nodes on which something ended."""

    def __init__(
        self,
        client: KubeClient,
        *,
        pods: Store[WatchedPod],
        reservations: Reservations,
        reservation_store: Store[ReservationPod],
        queue: WorkQueue[str],
        binder_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._reservations = reservations
        self._store = reservation_store
        self._queue = queue
        self._binder_id = binder_id
        self._clock = clock
        self._pods = pods
        pods.listen(self._pod_changed)
        reservation_store.listen(self._reservation_changed)

    async def run(self) -> None:
        """Sync all nodes, then those on which something ends, until cancelled."""
        for node in {pod.spec.node_name for pod in self._store} | self._consumer_nodes():
            self._queue.add(node)
        await self._queue.run(self.sync_node, workers=4)

    def soon(self, node: str) -> None:
        """Look at a node without delay."""
        self._queue.add(node)

    async def sync_node(self, node: str) -> float | None:
        """Bring one node in order; seconds after which to look again, None if it is in order."""
        # Read the reservations before the consumers: a claim written in between makes the delete fail.
        reservations = await self._live_reservations(node)
        consumers = await self._live_consumers(node)
        used = {group for pod in consumers for group in gpu_groups(pod.metadata)}
        again: list[float] = []
        for reservation in reservations.values():
            if reservation.group not in used or reservation.lost:
                again += await self._free(reservation)
        for pod in consumers:
            if lost := gpu_groups(pod.metadata) - reservations.keys():
                await self._evict(pod, lost)
        return min(again, default=None)

    # --- triggers ------------------------------------------------------------------------------
    def _pod_changed(self, old: WatchedPod | None, new: WatchedPod | None) -> None:
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._bound(new)
        if old is None or not (groups := gpu_groups(old.metadata)):
            return
        ended = new is None or (new.finished and not old.finished)
        if ended or (new is not None and groups - gpu_groups(new.metadata)):
            for node in {old.spec.node_name} if old.spec.node_name else self._nodes_of(groups):
                self._look_after(node, groups)

    def _bound(self, pod: WatchedPod) -> None:
        """Look after what the pod claimed and does without: it was decided anew after a bind began."""
        groups = gpu_groups(pod.metadata)
        for claimed in self._store.by_index("claimant", pod.metadata.uid):
            if claimed.group not in groups or claimed.spec.node_name != pod.spec.node_name:
                self._look_after(claimed.spec.node_name, {claimed.group})

    def _reservation_changed(self, old: ReservationPod | None, new: ReservationPod | None) -> None:
        if old is None and new is not None:
            # Whoever made it may not live to use it, and then nothing else would tell.
            self._queue.add_after(new.spec.node_name, random.uniform(*NEW_ONES_WAIT))  # noqa: S311
        lost = old is not None and (new is None or (new.lost and not old.lost))
        # Our own delete of an unused one ends here too: then no pod names its group.
        if old is not None and lost and self._pods.by_index("group", old.group):
            self._queue.add_after(old.spec.node_name, random.uniform(0.0, CHANGED_MEANWHILE))  # noqa: S311

    def _look_after(self, node: str, groups: set[str]) -> None:
        ours = any(
            pod.annotations.get(names.RESERVED_BY) == self._binder_id
            for group in groups
            for pod in self._store.by_index("group", group)
        )
        if ours:
            self._queue.add(node)
        else:
            self._queue.add_after(node, random.uniform(*OTHERS_WAIT))  # noqa: S311 (spreading, not secrecy)

    def _nodes_of(self, groups: set[str]) -> set[str]:
        return {pod.spec.node_name for group in groups for pod in self._store.by_index("group", group)}

    def _consumer_nodes(self) -> set[str]:
        return {
            pod.spec.node_name
            for pod in self._pods
            if pod.spec.node_name and not pod.finished and gpu_groups(pod.metadata)
        }

    # --- what is there -------------------------------------------------------------------------
    async def _live_reservations(self, node: str) -> dict[str, ReservationPod]:
        """By group, as they are at this moment."""
        found: dict[str, ReservationPod] = {}
        for known in self._reservations.on_node(node):
            if (pod := await self._reservations.read(node, known.group)) is not None:
                found[pod.group] = pod
        return found

    async def _live_consumers(self, node: str) -> list[WatchedPod]:
        pods = await self._client.list(PODS, field_selector=f"spec.nodeName={node}", type=WatchedPod)
        return [
            pod
            for pod in pods
            if not pod.finished
            and gpu_groups(pod.metadata)
            and pod.metadata.namespace != self._reservations.namespace
        ]

    # --- repairs -------------------------------------------------------------------------------
    async def _free(self, reservation: ReservationPod) -> list[float]:
        """Delete a reservation that nobody counts on; when to look again, if somebody does or it changed."""
        now = self._clock()
        claims = {} if reservation.lost else reservation.claims
        for uid, claim in claims.items():
            if now < claim.until and await self._holds(uid, claim, reservation):
                return [min(claim.until - now + 1.0, 60.0)]
        return [] if await self._reservations.delete(reservation) else [CHANGED_MEANWHILE]

    async def _holds(self, uid: str, claim: Claim, reservation: ReservationPod) -> bool:
        """Whether the pod of a claim may still use the device: it is there, and not bound to do without."""
        namespace, _, name = claim.pod.partition("/")
        try:
            pod = await self._client.get(PODS, name, namespace=namespace, type=WatchedPod)
        except errors.NotFound:
            return False
        if pod.metadata.uid != uid or pod.finished:
            return False
        here = pod.spec.node_name == reservation.spec.node_name
        return not pod.spec.node_name or (here and reservation.group in gpu_groups(pod.metadata))

    async def _evict(self, pod: WatchedPod, groups: set[str]) -> None:
        """Delete a running pod whose device nobody holds. A pod that has not started gets it yet."""
        node = pod.spec.node_name
        for group in groups:
            if pod.status.phase != "Running" or await self._reservations.read(node, group) is not None:
                continue
            _log.warning("pod runs on a device that nobody holds", pod=pod.key, node=node, group=group)
            meta = pod.metadata
            with suppress(errors.NotFound, errors.Conflict):
                await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
            return
