"""Bringing reservation pods and their consumers together again, node by node.

* A reservation that nobody counts on is freed, so that its device can be had as a whole.
* A consumer that runs on a device which nobody holds any more is deleted: somebody else may get it. Another
  reservation of its group may hold another device, and is nothing to it.
* A consumer of which nothing is recorded, as it was bound by another binder than ours, is recorded by what
  its labels and annotations say at that moment. If its ConfigMap says that it was given another device than
  the reservation holds, what was recorded went with a reservation that ended while nobody looked.

Which devices a pod consumes is what its claims record, not what its labels say by now: these are its
owner's. A pod of another scheduler consumes what that one's installation reserved, which may stand beside
ours. What a binder of ours reserved it does not: the device would be held, and nobody charged.

Every binder watches all nodes, and any of them may act (see :mod:`kai_binder.reservations` for why they
cannot do harm). So that they do not all do the same, who made a reservation looks after it at once, and
the others only after a while, if it is still there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import PODS
from kai.kube.store import Store
from kai.kube.workqueue import WorkQueue
from kai.model import names
from kai.model.claims import Claim, Grant
from kai.model.ids import PodUid
from kai.model.objects import Pod
from kai_binder.holdings import asked, holder, holdings
from kai_binder.objects import WatchedPod, gpu_groups
from kai_binder.plugins.gpusharing import devices_told
from kai_binder.reservation_pods import ReservationPod
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
        scheduler_name: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._reservations = reservations
        self._store = reservation_store
        self._queue = queue
        self._binder_id = binder_id
        self._clock = clock
        self._pods = pods
        #: Reservations that ended, by node and uid, until nobody runs there who was granted a part of them.
        self._ended: dict[str, dict[str, ReservationPod]] = {}
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
        """Bring one node in order; seconds after which to look again, None if it is in order.

        Raises:
            KubeError: something of it could not be done; everything else is.
        """
        # Read the reservations before the consumers: a claim written in between makes the delete fail.
        reservations = await self._live_reservations(node)
        pods, others = await self._live_pods(node)
        ended = [*self._ended.get(node, {}).values()]
        found = holdings(pods, standing=reservations, ended=ended)
        used = found.used | _of_others(reservations, others)
        steps = [
            *(
                partial(self._free, each, found.held.keys())
                for each in reservations
                if each.group not in used or each.lost
            ),
            *(
                partial(self._evict, pod, lost)
                for pod in pods
                if (lost := found.lost[PodUid(pod.metadata.uid)])
            ),
            partial(self._record, found.unrecorded, reservations),
        ]
        again = await _one_by_one(steps)
        self._forget_ended(node, {each.metadata.uid for each in ended if each not in found.outlived})
        return min(again, default=None)

    # --- triggers ------------------------------------------------------------------------------
    def _pod_changed(self, old: WatchedPod | None, new: WatchedPod | None) -> None:
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._bound(new)
        if new is not None and _starts(old, new) and self._may_have_lost(new):
            self._queue.add(new.spec.node_name)
        if old is None or not (groups := self._groups_of(old)):
            return
        ended = new is None or (new.finished and not old.finished)
        if ended or (new is not None and groups - self._groups_of(new)):
            for node in {old.spec.node_name} if old.spec.node_name else self._nodes_of(groups):
                self._look_after(node, groups)

    def _groups_of(self, pod: WatchedPod) -> set[str]:
        """The groups that its labels name, and those that it claims."""
        return gpu_groups(pod.metadata) | {
            each.group for each in self._store.by_index("claimant", pod.metadata.uid)
        }

    def _bound(self, pod: WatchedPod) -> None:
        """Look after what the pod claimed and does without: it was decided anew after a bind began."""
        groups = gpu_groups(pod.metadata)
        for claimed in self._store.by_index("claimant", pod.metadata.uid):
            if claimed.group not in groups or claimed.spec.node_name != pod.spec.node_name:
                self._look_after(claimed.spec.node_name, {claimed.group})

    def _may_have_lost(self, pod: WatchedPod) -> bool:
        """Whether reservations ended on its node, or it names a group and no reservation names it."""
        if pod.spec.node_name in self._ended:
            return True
        return bool(gpu_groups(pod.metadata)) and not self._store.by_index("claimant", pod.metadata.uid)

    def _reservation_changed(self, old: ReservationPod | None, new: ReservationPod | None) -> None:
        if old is None and new is not None:
            # Whoever made it may not live to use it, and then nothing else would tell.
            wait = random.uniform(*NEW_ONES_WAIT)  # noqa: S311
            asyncio.get_running_loop().call_later(wait, self._look_after_unused, new.key)
        lost = old is not None and (new is None or (new.lost and not old.lost))
        # Our own delete of an unused one ends here too: then no pod names its group, and none is recorded.
        if old is not None and lost and (self._pods.by_index("group", old.group) or self._is_granted(old)):
            self._ended.setdefault(old.spec.node_name, {})[old.metadata.uid] = old
            self._queue.add_after(old.spec.node_name, random.uniform(0.0, CHANGED_MEANWHILE))  # noqa: S311

    def _look_after_unused(self, key: str) -> None:
        """Look after one that is there still, unless a pod that was granted a part of it has come."""
        reservation = self._store.get(key)
        if reservation is not None and not self._is_granted(reservation):
            self._queue.add(reservation.spec.node_name)

    def _is_granted(self, reservation: ReservationPod) -> bool:
        """Whether a pod that is known to run on its node was granted a part of it."""
        for uid, claim in reservation.claims.items():
            pod = self._pods.get(claim.pod)
            if pod is None or pod.metadata.uid != uid or pod.finished:
                continue
            if pod.spec.node_name == reservation.spec.node_name:
                return True
        return False

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
    async def _live_reservations(self, node: str) -> list[ReservationPod]:
        """As they are at this moment. Another scheduler may have left several of one group."""
        known = self._reservations.on_node(node)
        found = [await self._reservations.read_again(each.metadata.name) for each in known]
        return [each for each in found if each is not None]

    async def _live_pods(self, node: str) -> tuple[list[WatchedPod], list[WatchedPod]]:
        """Those of our scheduler, and those of others."""
        ours: list[WatchedPod] = []
        others: list[WatchedPod] = []
        for pod in await self._client.list(PODS, field_selector=f"spec.nodeName={node}", type=WatchedPod):
            if not pod.finished and pod.metadata.namespace != self._reservations.namespace:
                (ours if pod.spec.scheduler_name == self._scheduler_name else others).append(pod)
        return ours, others

    def _forget_ended(self, node: str, uids: set[str]) -> None:
        """Nobody goes by these reservations any more."""
        ended = self._ended.get(node, {})
        for uid in uids:
            ended.pop(uid, None)
        if not ended:
            self._ended.pop(node, None)

    # --- repairs -------------------------------------------------------------------------------
    async def _free(self, reservation: ReservationPod, there: Collection[PodUid]) -> list[float]:
        """Delete a reservation that nobody counts on; when to look again, if somebody does or it changed.

        ``there`` are the pods (uids) of the node.
        """
        now = self._clock()
        claims = {} if reservation.lost else reservation.claims
        for uid, claim in claims.items():
            if now < claim.until and uid not in there and await self._may_come(uid, claim, reservation):
                return [min(claim.until - now + 1.0, 60.0)]
        return [] if await self._reservations.delete(reservation) else [CHANGED_MEANWHILE]

    async def _may_come(self, uid: str, claim: Claim, reservation: ReservationPod) -> bool:
        """Whether the pod of a claim may still use the device: it is there, and not bound elsewhere."""
        namespace, _, name = claim.pod.partition("/")
        try:
            pod = await self._client.get(PODS, name, namespace=namespace, type=WatchedPod)
        except errors.NotFound:
            return False
        if pod.metadata.uid != uid or pod.finished:
            return False
        return pod.spec.node_name in ("", reservation.spec.node_name)

    async def _record(self, pods: list[WatchedPod], standing: list[ReservationPod]) -> list[float]:
        """Record consumers that were bound without; when to look again, if something changed meanwhile.

        Those that turn out to run on devices which no reservation of their groups holds are deleted.
        """
        reservations = {each.metadata.name: each for each in standing}
        groups = {each.group for each in standing}
        missing: dict[str, dict[str, tuple[str, Grant]]] = {}
        for pod in pods:
            named = gpu_groups(pod.metadata) & groups
            if not named or (grant := asked(pod)) is None:
                continue
            told = await self._devices_told(pod)
            there = {group: holder(group, standing=standing, devices=told) for group in named}
            if lost := {group: ",".join(sorted(told)) for group, held in there.items() if held is None}:
                await self._evict(pod, lost)
                continue
            for held in filter(None, there.values()):
                missing.setdefault(held.metadata.name, {})[pod.metadata.uid] = (pod.key, grant)
        done = [await self._reservations.record(reservations[name], told) for name, told in missing.items()]
        return [] if all(done) else [CHANGED_MEANWHILE]

    async def _devices_told(self, pod: WatchedPod) -> frozenset[str]:
        """The devices that a pod was told when it was bound; empty if that is not known."""
        meta = pod.metadata
        try:
            return await devices_told(
                self._client, await self._client.get(PODS, meta.name, namespace=meta.namespace, type=Pod)
            )
        except errors.NotFound:
            return frozenset()

    async def _evict(self, pod: WatchedPod, lost: dict[str, str]) -> list[float]:
        """Delete a running pod of which nobody holds a device. A pod that has not started may get it yet.

        ``lost`` are devices by group, empty where it is not known which one that is.
        """
        if pod.status.phase != "Running":
            return []
        node = pod.spec.node_name
        for group, device in lost.items():
            standing = await self._reservations.read(node, group)
            if standing is not None and device in ("", standing.device):
                continue
            _log.warning(
                "pod runs on a device that nobody holds", pod=pod.key, node=node, group=group, device=device
            )
            meta = pod.metadata
            with suppress(errors.NotFound, errors.Conflict):
                await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
            break
        return []


async def _one_by_one(steps: Iterable[Callable[[], Awaitable[list[float]]]]) -> list[float]:
    """Take all steps, those after one that fails too: one object must not keep its neighbours waiting.

    Each is begun when its turn comes, so that whoever is cancelled amid them leaves none begun and forgotten.
    """
    said: list[float] = []
    failed: list[errors.KubeError] = []
    for step in steps:
        try:
            said += await step()
        except errors.KubeError as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return said


def _starts(old: WatchedPod | None, new: WatchedPod) -> bool:
    return new.status.phase == "Running" and (old is None or old.status.phase != "Running")


def _of_others(reservations: Iterable[ReservationPod], pods: Iterable[WatchedPod]) -> set[str]:
    """The GPU groups that no binder of ours reserved, and that pods of other schedulers name."""
    named = {group for pod in pods for group in gpu_groups(pod.metadata)}
    return {each.group for each in reservations if names.RESERVED_BY not in each.annotations} & named
